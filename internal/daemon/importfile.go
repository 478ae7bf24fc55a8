package daemon

import (
	"bytes"
	"path/filepath"
	"strings"

	"mcpx/internal/clientfile"
	"mcpx/internal/converge"
	"mcpx/internal/fault"
)

// ImportFormats are the words of `mcpx catalog import --format`.
var ImportFormats = []string{"auto", "json", "toml", "yaml"}

// ImportJSON gives a file with servers as JSON, whatever its syntax. Auto goes by the ending of the name, and for a name
// without one by what the document can be read as; JSON with comments is left as it is.
func ImportJSON(name string, data []byte, format string) ([]byte, error) {
	if format == "auto" {
		switch strings.ToLower(filepath.Ext(name)) {
		case ".toml":
			format = "toml"
		case ".yaml", ".yml":
			format = "yaml"
		case ".json", ".jsonc":
			format = "json"
		default:
			return guessed(data), nil
		}
	}
	if format == "json" {
		return data, nil
	}
	out, err := clientfile.Convert(data, clientfile.Format(format))
	if err != nil {
		return nil, fault.New(fault.Invalid, "import-broken").Saying("the file cannot be read as %s", strings.ToUpper(format)).
			Hinting("correct it there, or name its syntax with --format").Because(err)
	}
	return out, nil
}

// guessed converts a document that is an object in TOML or YAML and no JSON. Everything else is left to the reader of
// JSON, which says what is wrong.
func guessed(data []byte) []byte {
	if text := bytes.TrimSpace(data); len(text) == 0 || text[0] == '{' || bytes.HasPrefix(text, []byte("//")) {
		return data
	}
	for _, format := range []clientfile.Format{clientfile.JSONC, clientfile.TOML, clientfile.YAML} {
		out, err := clientfile.Convert(data, format)
		if err == nil && (format == clientfile.JSONC || bytes.HasPrefix(out, []byte("{"))) {
			return out
		}
	}
	return data
}

// spell writes entries as a file of an agent, for control.
func spell(agent string, forms []converge.Form) (document []byte, format string, dropped map[string]string, err error) {
	document, f, dropped, err := clientfile.Spell(agent, forms)
	if f == clientfile.JSONC {
		f = clientfile.JSON
	}
	return document, string(f), dropped, err
}
