package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"reflect"
	"strconv"
	"strings"

	"mcpx/internal/fault"
)

// Failure is the body of every answer that is no success.
type Failure struct {
	Error Problem `json:"error"`
}

// Problem is a *fault.Error on the wire. The cause is part of the message: it helps a person and binds no program.
type Problem struct {
	Kind    fault.Kind  `json:"kind"`
	Code    string      `json:"code"`
	Message string      `json:"message"`
	Hint    string      `json:"hint,omitempty"`
	Retry   fault.Retry `json:"retry,omitempty"`
}

// ProblemOf describes an error for the wire.
func ProblemOf(err error) Problem {
	e := fault.From(err)
	return Problem{Kind: e.Kind, Code: e.Code, Message: e.Error(), Hint: e.Hint, Retry: e.Retry}
}

// Fault is the error that a Problem describes.
func (p Problem) Fault() *fault.Error {
	return fault.New(p.Kind, p.Code).Saying("%s", p.Message).Hinting("%s", p.Hint).Retrying(p.Retry)
}

// StreamLine is one line of an NDJSON stream. The last line has End; a stream without it was cut off.
type StreamLine struct {
	Line  json.RawMessage `json:"line,omitempty"`
	Beat  bool            `json:"beat,omitempty"` // nothing has happened, and the daemon is there; only for callers that ask for it
	End   bool            `json:"end,omitempty"`
	Error *Problem        `json:"error,omitempty"` // only with End
}

// Marshal writes JSON as it travels: without escapes for HTML, so that raw parts of a server's message stay as they are.
func Marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte{'\n'}), nil
}

// target gives the path and query of a request: fields tagged path and query go into the URL, the others into the
// body. A name that no URL can have is an error here: nothing is called so.
func (op Op) target(in any) (string, error) {
	path := op.Path
	query := url.Values{}
	v := reflect.ValueOf(in)
	for i := range v.NumField() {
		f := v.Type().Field(i)
		if name := f.Tag.Get("path"); name != "" {
			value := v.Field(i).String()
			if value == "" || value == "." || value == ".." {
				return "", fault.New(fault.Invalid, "name-invalid").Saying("%q names no %s", value, name)
			}
			path = strings.Replace(path, "{"+name+"}", url.PathEscape(value), 1)
		}
		if name := f.Tag.Get("query"); name != "" && !v.Field(i).IsZero() {
			if list, ok := reflect.TypeAssert[[]string](v.Field(i)); ok {
				query[name] = list
				continue
			}
			query.Set(name, fmt.Sprint(v.Field(i).Interface()))
		}
	}
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	return path, nil
}

// ReadRequest fills in, a pointer to the request type of the row, from the URL and the body of r. An unknown member of the
// body is an error: a caller that misspells a field must not believe that it was heard.
func (op Op) ReadRequest(r *http.Request, in any) error {
	if op.Method == http.MethodPost || op.Method == http.MethodPatch {
		if err := readBody(r.Body, in); err != nil {
			return err
		}
	}
	v := reflect.ValueOf(in).Elem()
	for i := range v.NumField() {
		f := v.Type().Field(i)
		if name := f.Tag.Get("path"); name != "" {
			v.Field(i).SetString(r.PathValue(name))
		}
		name := f.Tag.Get("query")
		if name == "" || !r.URL.Query().Has(name) {
			continue
		}
		if err := setQuery(v.Field(i), r.URL.Query()[name]); err != nil {
			return fault.New(fault.Invalid, "request-invalid").Saying("query parameter %s: %v", name, err)
		}
	}
	return nil
}

func readBody(body io.Reader, in any) error {
	data, err := io.ReadAll(io.LimitReader(body, MaxBody+1))
	if err != nil {
		return fault.New(fault.Invalid, "request-invalid").Saying("the request body could not be read").Because(err)
	}
	if len(data) > MaxBody {
		return fault.New(fault.Invalid, "request-too-large").Saying("the request body is larger than %d bytes", MaxBody)
	}
	if len(data) == 0 {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(in); err != nil {
		return fault.New(fault.Invalid, "request-invalid").Saying("the request body is not what this operation takes").Because(err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return fault.New(fault.Invalid, "request-invalid").Saying("the request body has more than one JSON value")
	}
	return nil
}

// setQuery sets a field from the values of its parameter; only a list takes more than the first.
func setQuery(v reflect.Value, values []string) error {
	text := values[0]
	switch field := v.Addr().Interface().(type) {
	case *int:
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 {
			return fmt.Errorf("%q is not a number of at least 0", text)
		}
		*field = n
	case *bool:
		b, err := strconv.ParseBool(text)
		if err != nil {
			return fmt.Errorf("%q is neither true nor false", text)
		}
		*field = b
	case *string:
		*field = text
	case *[]string:
		*field = values
	}
	return nil
}
