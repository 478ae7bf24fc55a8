package catalog

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
)

// rawEntry joins the spellings of all agents (governance.md section 3.2).
type rawEntry struct {
	Type          string            `json:"type"`
	Transport     json.RawMessage   `json:"transport"` // a string, or Cline's object
	Command       json.RawMessage   `json:"command"`   // a string, or OpenCode's argv
	Args          []string          `json:"args"`
	Env           map[string]scalar `json:"env"`
	Environment   map[string]scalar `json:"environment"`
	Cwd           string            `json:"cwd"`
	URL           string            `json:"url"`
	HTTPURL       string            `json:"httpUrl"`
	ServerURL     string            `json:"serverUrl"`
	Headers       map[string]scalar `json:"headers"`
	HTTPHeaders   map[string]scalar `json:"http_headers"`
	EnvHeaders    map[string]string `json:"env_http_headers"`
	BearerVar     string            `json:"bearer_token_env_var"`
	Disabled      bool              `json:"disabled"`
	Enabled       *bool             `json:"enabled"`
	Description   string            `json:"description"`
	transportType string
}

// scalar is a value of a variable: some files write numbers and booleans without quotes.
type scalar string

// UnmarshalJSON keeps the spelling of numbers and booleans.
func (s *scalar) UnmarshalJSON(data []byte) error {
	switch data[0] {
	case '"':
		return json.Unmarshal(data, (*string)(s))
	case '{', '[', 'n':
		return errors.New("a variable or a header is null, a list or an object, want a text")
	}
	*s = scalar(data)
	return nil
}

// article is the word of encoding/json for a JSON value, as part of a sentence.
func article(value string) string {
	word, _, _ := strings.Cut(value, " ") // a number comes with its digits
	switch word {
	case "string":
		return "a text"
	case "bool":
		return "true or false"
	case "null":
		return "null"
	case "array", "object":
		return "an " + word
	}
	return "a " + word
}

// wanted says what a field of an entry must be.
func wanted(t reflect.Type) string {
	switch t.Kind() { //nolint:exhaustive // rawEntry has no others
	case reflect.Bool:
		return "true or false"
	case reflect.Slice:
		return "a list of texts"
	case reflect.Map, reflect.Struct:
		return "an object"
	}
	return "a text"
}
