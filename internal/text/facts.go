package text

// Encoding is how the characters of a file are stored.
type Encoding string

// The encodings. UTF-16 is text only with a byte order mark. Binary is everything that could not be given back exactly:
// bytes that are not valid in the encoding, a NUL in the first 8 KiB, half a surrogate pair.
const (
	UTF8    Encoding = "utf-8"
	UTF16LE Encoding = "utf-16le"
	UTF16BE Encoding = "utf-16be"
	Binary  Encoding = "binary"
)

// Style names the line ends of a file.
type Style string

// The styles. Mixed is a file with LF and CRLF; a CR beside them is a character, not a line end.
const (
	StyleNone  Style = "none"
	StyleLF    Style = "lf"
	StyleCRLF  Style = "crlf"
	StyleCR    Style = "cr"
	StyleMixed Style = "mixed"
)

// EOL counts the line ends of a file by their form.
type EOL struct {
	Style Style `json:"style"`
	LF    int   `json:"lf"`
	CRLF  int   `json:"crlf"`
	CR    int   `json:"cr"`
}

// newEOL counts lf line ends of LF alone, crlf of both, and cr that are CR alone.
func newEOL(lf, crlf, cr int) EOL {
	e := EOL{LF: lf, CRLF: crlf}
	switch {
	case lf > 0 && crlf > 0:
		e.Style = StyleMixed
	case lf > 0:
		e.Style = StyleLF
	case crlf > 0:
		e.Style = StyleCRLF
	case cr > 0:
		e.Style, e.CR = StyleCR, cr
	default:
		e.Style = StyleNone
	}
	return e
}

// ends is the number of line ends.
func (e EOL) ends() int { return e.LF + e.CRLF + e.CR }

// major is the line end that most lines have, LF if there are as many of both; "" when there is none.
func (e EOL) major() string {
	switch {
	case e.ends() == 0:
		return ""
	case e.CR > 0:
		return "\r"
	case e.CRLF > e.LF:
		return "\r\n"
	default:
		return "\n"
	}
}

// Facts is what is said of a file, whatever part of it is read. A binary file has no lines.
type Facts struct {
	Size         int64    `json:"size"` // raw bytes, the byte order mark among them
	Encoding     Encoding `json:"encoding"`
	BOM          bool     `json:"bom"`
	EOL          EOL      `json:"eol"`
	FinalNewline bool     `json:"final_newline"` // the last line has a line end; false for an empty file
	Lines        int      `json:"lines_total"`   // an unterminated last line counts
}

// bom is the byte order mark of the file.
func (f *Facts) bom() string {
	if !f.BOM {
		return ""
	}
	switch f.Encoding {
	case UTF16LE:
		return bomUTF16LE
	case UTF16BE:
		return bomUTF16BE
	case UTF8, Binary:
	}
	return bomUTF8
}

// end is the last byte or unit of every line end: LF, or CR in a file that has no LF.
func (f *Facts) end() byte {
	if f.EOL.Style == StyleCR {
		return '\r'
	}
	return '\n'
}
