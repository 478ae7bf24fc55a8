package secret

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"runtime"
	"strconv"
	"strings"

	"mcpx/internal/catalog"
	"mcpx/internal/fault"
)

// maxFile bounds a file that holds secrets: a dotenv or JSON file of a person, not a database.
const maxFile = 1 << 20

// readFile gives one value of a file that only its owner can read.
func readFile(name, key string) (string, error) {
	data, err := readPrivate(name)
	if err != nil {
		return "", err
	}
	value, found := string(data), true
	switch {
	case key == "":
		value = cutNewline(value)
	case strings.HasPrefix(key, "/"):
		value, found, err = pointed(data, key)
	default:
		value, found, err = dotenv(value, key)
	}
	switch {
	case err != nil:
		return "", fault.New(fault.Invalid, "credential-invalid").
			Saying("%s cannot be read: %v", name, err).Hinting("correct the file").Retrying(fault.AfterFix)
	case !found || value == "":
		return "", missing("%s has no value for %s", name, keyName(key)).Hinting("add it, or correct the part after # of the reference")
	case len(value) > maxValue:
		return "", fault.New(fault.Invalid, "credential-invalid").
			Saying("the value in %s has %d bytes, at most %d are allowed", name, len(value), maxValue).
			Hinting("name a part of the file with #KEY")
	}
	return value, nil
}

func keyName(key string) string {
	if key == "" {
		return "the whole file"
	}
	return key
}

func readPrivate(name string) ([]byte, error) {
	info, err := os.Stat(name)
	if err == nil && !info.Mode().IsRegular() { // opening a pipe would wait for its writer
		return nil, missing("%s is no regular file", name).Hinting("correct the path in the reference")
	}
	if err != nil {
		return nil, unreadable(name, err)
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, unreadable(name, err)
	}
	defer func() { _ = f.Close() }() // only read
	if info, err = f.Stat(); err != nil {
		return nil, unreadable(name, err)
	}
	if runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 {
		return nil, fault.New(fault.Denied, "credential-permissions").
			Saying("%s can be read by others (mode %04o)", name, info.Mode().Perm()).
			Hinting("run `chmod 600 %s`", name).Retrying(fault.AfterFix)
	}
	if !ownedByUs(info) {
		return nil, fault.New(fault.Denied, "credential-permissions").
			Saying("%s belongs to another user", name).Hinting("copy it to a file of your own with mode 0600").Retrying(fault.AfterFix)
	}
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, unreadable(name, err)
	}
	if len(data) > maxFile {
		return nil, fault.New(fault.Invalid, "credential-invalid").
			Saying("%s is larger than %d KiB", name, maxFile>>10).Hinting("put the secret into a file of its own")
	}
	return data, nil
}

func unreadable(name string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return missing("%s does not exist", name).Hinting("make it with mode 0600, or correct the path in the reference")
	}
	return fault.New(fault.Denied, "credential-permissions").
		Saying("%s cannot be read", name).Hinting("check its owner and mode").Retrying(fault.AfterFix).Because(err)
}

// pointed follows a JSON pointer (RFC 6901). Comments are allowed; errors never quote the file.
func pointed(data []byte, pointer string) (value string, found bool, err error) {
	strict, err := catalog.StandardJSON(data, true, true)
	if err != nil {
		return "", false, err
	}
	var at any
	if err := json.Unmarshal(strict, &at); err != nil {
		return "", false, errors.New("it is no JSON")
	}
	unescape := strings.NewReplacer("~1", "/", "~0", "~")
	for part := range strings.SplitSeq(pointer[1:], "/") {
		part = unescape.Replace(part)
		switch parent := at.(type) {
		case map[string]any:
			at, found = parent[part]
		case []any:
			i, err := strconv.Atoi(part)
			if found = err == nil && i >= 0 && i < len(parent); found {
				at = parent[i]
			}
		default:
			found = false
		}
		if !found {
			return "", false, nil
		}
	}
	value, isText := at.(string)
	if !isText {
		return "", false, errors.New("the value at " + pointer + " is no text")
	}
	return value, true, nil
}

// dotenv finds the last NAME=VALUE of that name: `export` before it, comments, single quotes as they are, double quotes
// with \n \r \t \" \\ and \$.
func dotenv(text, key string) (value string, found bool, err error) {
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		line = strings.TrimSpace(strings.TrimPrefix(line, "export "))
		name, rest, ok := strings.Cut(line, "=")
		if !ok || strings.HasPrefix(line, "#") || strings.TrimSpace(name) != key {
			continue
		}
		if value, err = unquote(strings.TrimSpace(rest)); err != nil {
			return "", false, err
		}
		found = true
	}
	return value, found, nil
}

func unquote(s string) (string, error) {
	if s == "" {
		return "", nil
	}
	switch s[0] {
	case '\'':
		value, _, closed := strings.Cut(s[1:], "'")
		if !closed {
			return "", errors.New("a quoted value does not end on its line")
		}
		return value, nil
	case '"':
		return unquoteDouble(s[1:])
	}
	if i := strings.Index(s, " #"); i >= 0 {
		s = strings.TrimSpace(s[:i])
	}
	return s, nil
}

func unquoteDouble(s string) (string, error) {
	var out strings.Builder
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '"':
			return out.String(), nil
		case s[i] == '\\' && i+1 < len(s):
			i++
			switch s[i] {
			case 'n':
				out.WriteByte('\n')
			case 'r':
				out.WriteByte('\r')
			case 't':
				out.WriteByte('\t')
			case '"', '\\', '$':
				out.WriteByte(s[i])
			default:
				out.WriteByte('\\')
				out.WriteByte(s[i])
			}
		default:
			out.WriteByte(s[i])
		}
	}
	return "", errors.New("a quoted value does not end on its line")
}
