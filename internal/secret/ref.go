package secret

import (
	"encoding/json"
	"slices"
	"strings"

	"mcpx/internal/catalog"
	"mcpx/internal/fault"
)

// Kind says where a reference points.
type Kind string

// The kinds of references, governance.md section 8.
const (
	Env     Kind = "env"     // env:NAME, a variable of the daemon
	File    Kind = "file"    // file:PATH or file:PATH#KEY, readable by the owner only
	Command Kind = "command" // command:ARGV, the output of a program
	Keyring Kind = "keyring" // keyring:SERVICE/ACCOUNT, an item of the keyring of the system
	Store   Kind = "store"   // store:NAME, a value of the encrypted store
	Named   Kind = "cred"    // cred:NAME, whatever the credential of that name refers to
)

// Ref is a parsed reference. It holds no value, so it may be shown and stored.
type Ref struct {
	Kind Kind
	Name string   // env: the variable; store and cred: the credential
	Path string   // file: absolute, or below the home with ~/
	Key  string   // file: "" the whole file, a JSON pointer when it starts with a slash, else a name of a dotenv file
	Argv []string // command

	Service, Account string // keyring; an account may be empty
}

const (
	// maxRef bounds a reference: a path and a key, or a short command line.
	maxRef = 4 << 10
	// maxArgv bounds the words of a command.
	maxArgv = 64
)

// ParseRef reads a reference as a person writes it. command: takes words, or a JSON list when a word holds a space.
func ParseRef(s string) (Ref, error) {
	kind, where, found := strings.Cut(s, ":")
	switch {
	case len(s) > maxRef:
		return Ref{}, badRef("it has %d bytes, at most %d are allowed", len(s), maxRef).Hinting("shorten it")
	case !found:
		// The text is not repeated: somebody may have pasted the secret itself.
		return Ref{}, badRef("it is not written as KIND:WHERE").Hinting("for example env:GITHUB_TOKEN or file:/path/to/file#KEY")
	case strings.ContainsRune(where, 0):
		return Ref{}, badRef("it holds a NUL byte").Hinting("remove it")
	}
	switch Kind(kind) {
	case Env:
		return parseEnv(where)
	case File:
		return parseFile(where)
	case Command:
		return parseCommand(where)
	case Keyring:
		return parseKeyring(where)
	case Store, Named:
		if err := catalog.ValidCredentialName(where); err != nil {
			return Ref{}, badRef("%s", fault.From(err).Message).Hinting("write %s:NAME, for example %s:github-token", kind, kind)
		}
		return Ref{Kind: Kind(kind), Name: where}, nil
	}
	return Ref{}, unknownKind(kind)
}

func badRef(format string, args ...any) *fault.Error {
	return fault.New(fault.Invalid, "reference-invalid").
		Saying("the credential reference cannot be used: "+format, args...).Retrying(fault.AfterFix)
}

func unknownKind(kind string) error {
	kinds := []string{string(Env), string(File), string(Command), string(Keyring), string(Store), string(Named)}
	e := fault.New(fault.Invalid, "reference-kind").Retrying(fault.AfterFix)
	if near := catalog.Nearest(kind, kinds); near != "" {
		return e.Saying("%q is no kind of reference", kind).Hinting("did you mean %s:...?", near)
	}
	return e.Saying("the credential reference has no known kind before its first colon").
		Hinting("use env:NAME, file:PATH#KEY, keyring:SERVICE/ACCOUNT, store:NAME or command:PROGRAM ARGS")
}

func parseEnv(name string) (Ref, error) {
	if name == "" || strings.ContainsAny(name, "= \t\n{}") {
		return Ref{}, badRef("after env: comes the name of one variable").Hinting("for example env:GITHUB_TOKEN")
	}
	return Ref{Kind: Env, Name: name}, nil
}

func parseFile(where string) (Ref, error) {
	path, key := where, ""
	if i := strings.LastIndex(where, "#"); i >= 0 { // the last one: paths may hold it, keys do not
		path, key = where[:i], where[i+1:]
		if key == "" {
			return Ref{}, badRef("nothing follows the #").Hinting("write file:PATH#KEY, or file:PATH for the whole file")
		}
	}
	if !strings.HasPrefix(path, "/") && !strings.HasPrefix(path, "~/") {
		return Ref{}, badRef("%q is no absolute path", path).Hinting("write file:/PATH or file:~/PATH")
	}
	return Ref{Kind: File, Path: path, Key: key}, nil
}

func parseCommand(where string) (Ref, error) {
	argv := strings.Fields(where)
	if strings.HasPrefix(strings.TrimSpace(where), "[") {
		argv = nil
		if err := json.Unmarshal([]byte(where), &argv); err != nil {
			return Ref{}, badRef("after command: comes no JSON list of words").Hinting(`for example command:["pass", "show", "my token"]`)
		}
	}
	switch {
	case len(argv) == 0 || argv[0] == "":
		return Ref{}, badRef("after command: comes no program").Hinting("for example command:pass show github")
	case len(argv) > maxArgv:
		return Ref{}, badRef("the command has %d words, at most %d are allowed", len(argv), maxArgv).Hinting("put it into a script")
	}
	return Ref{Kind: Command, Argv: argv}, nil
}

// parseKeyring cuts at the last slash: services are often URLs, accounts hardly ever hold one.
func parseKeyring(where string) (Ref, error) {
	i := strings.LastIndexByte(where, '/')
	if i < 1 {
		return Ref{}, badRef("after keyring: comes a service, a slash and an account").Hinting("for example keyring:github/ada")
	}
	if strings.ContainsAny(where, "{}\n") {
		return Ref{}, badRef("it holds a brace or a line break").Hinting("write keyring:SERVICE/ACCOUNT")
	}
	return Ref{Kind: Keyring, Service: where[:i], Account: where[i+1:]}, nil
}

// String is the reference as ParseRef reads it.
func (r Ref) String() string {
	switch r.Kind {
	case Env:
		return "env:" + r.Name
	case File:
		if r.Key != "" {
			return "file:" + r.Path + "#" + r.Key
		}
		return "file:" + r.Path
	case Keyring:
		return "keyring:" + r.Service + "/" + r.Account
	case Store, Named:
		return string(r.Kind) + ":" + r.Name
	case Command:
		if words := strings.Join(r.Argv, " "); slices.Equal(strings.Fields(words), r.Argv) && !strings.HasPrefix(words, "[") {
			return "command:" + words
		}
		list, err := json.Marshal(r.Argv)
		if err != nil {
			panic("secret: a list of strings cannot be encoded: " + err.Error())
		}
		return "command:" + string(list)
	}
	return ""
}
