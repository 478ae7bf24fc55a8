package catalog

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
)

// rawEntry joins the spellings of all agents (governance.md section 3.2) and of the exports of hubs.
type rawEntry struct {
	Type           string            `json:"type"`
	Transport      json.RawMessage   `json:"transport"` // a string, or Cline's object
	Command        json.RawMessage   `json:"command"`   // a string, or OpenCode's argv
	Args           []string          `json:"args"`
	Env            environment       `json:"env"`
	Environment    map[string]scalar `json:"environment"`
	EnvVars        []string          `json:"env_vars"` // names
	Cwd            string            `json:"cwd"`
	URL            string            `json:"url"`
	HTTPURL        string            `json:"httpUrl"`
	ServerURL      string            `json:"serverUrl"`
	Port           scalar            `json:"port"`
	Path           string            `json:"path"`
	StartCommand   json.RawMessage   `json:"start_command"`
	Headers        map[string]scalar `json:"headers"`
	HTTPHeaders    map[string]scalar `json:"http_headers"`
	EnvHeaders     map[string]string `json:"env_http_headers"`
	BearerVar      string            `json:"bearer_token_env_var"`
	BearerToken    scalar            `json:"bearer_token"`
	APIKey         scalar            `json:"apiKey"`
	RequestOptions struct {
		Headers map[string]scalar `json:"headers"`
	} `json:"requestOptions"`
	Disabled      bool   `json:"disabled"`
	Enabled       *bool  `json:"enabled"`
	Description   string `json:"description"`
	transportType string
}

// otherSpellings leads from a word of a field to the one that rawEntry reads. A field under its own word counts first.
var otherSpellings = map[string]string{
	"http_url": "httpUrl", "server_url": "serverUrl", "endpoint": "url", "httpHeaders": "http_headers",
	"envHttpHeaders": "env_http_headers", "bearerTokenEnvVar": "bearer_token_env_var", "bearerToken": "bearer_token",
	"api_key": "apiKey", "request_options": "requestOptions", "startCommand": "start_command", "start": "start_command",
	"launch_command": "start_command", "launchCommand": "start_command", "envVars": "env_vars", "working_directory": "cwd",
	"workingDirectory": "cwd", "working_dir": "cwd", "workingDir": "cwd", "arguments": "args", "transport_type": "type",
	"transportType": "type", "is_enabled": "enabled", "isEnabled": "enabled", "notes": "description",
}

// spelled reads the fields that stand under another spelling.
func (r *rawEntry) spelled(data []byte) error {
	members, _ := membersOf(data)
	have := map[string]bool{}
	for _, m := range members {
		have[m.name] = true
	}
	for _, m := range members {
		word, other := otherSpellings[m.name]
		if !other || have[word] {
			continue
		}
		one, err := json.Marshal(map[string]json.RawMessage{word: m.value})
		if err == nil {
			err = json.Unmarshal(one, r)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// environment is an object of values, or a list of names and NAME=VALUE.
type environment struct {
	values map[string]scalar
	names  []string
}

// UnmarshalJSON reads either.
func (e *environment) UnmarshalJSON(data []byte) error {
	items, ok := itemsOf(data)
	if !ok {
		return json.Unmarshal(data, &e.values)
	}
	for _, item := range items {
		var text string
		if err := json.Unmarshal(item, &text); err != nil {
			return err
		}
		name, value, assigned := strings.Cut(text, "=")
		if !assigned {
			e.names = append(e.names, name)
			continue
		}
		if e.values == nil {
			e.values = map[string]scalar{}
		}
		e.values[name] = scalar(value)
	}
	return nil
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
