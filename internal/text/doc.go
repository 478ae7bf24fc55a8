// Package text decides what a line, a character and a line end of a file are, which encodings count as text, and what an
// edit or a merge makes of a file. Reading, searching, editing and diffs use this one definition, so that a line number or a piece of
// text taken from one of them is right in the others. It refuses to know where the bytes lie and who asks for them.
//
// Lines end with LF or CRLF; a CR alone ends a line only in a file without LF. Text is handed out with \n for every line
// end. Offsets are of raw bytes and 0-based, lines are 1-based, ranges are inclusive.
//
// Invariant: an edit changes no byte outside the spans that it names, and what follows the continuations of a window
// gives the text of the file exactly once.
package text
