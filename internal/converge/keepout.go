package converge

import (
	"slices"
	"strings"

	"mcpx/internal/catalog"
)

// KeepOut gives the commands with which a person takes a candidate into the catalog whose secret stands in an argument,
// where every user of the machine can read it, and which therefore was not stored: the value becomes a credential, the server
// takes it as a variable or header, and the entry is said to be that server. Guessed says that the name of a variable is
// made from that of an option, or of the server: only its authors know whether it is read. None: the secret is a part of
// something else, and nobody can tell how the server would take it.
func KeepOut(name, candidate string, shape catalog.Shape) (commands []string, guessed bool) {
	if shape.Command == "" || !slices.ContainsFunc(shape.Args, hidden) {
		return nil, false
	}
	k := keepOut{name: name}
	p, known := catalog.IdentifyCommand(shape.Command, shape.Args)
	add := []string{"mcpx server add " + name}
	if known && p.Kind == catalog.PackageURL {
		add = append(add, k.remote(shape.Args)...)
	} else {
		argv := k.program(shape.Args)
		add = append(add, k.options...)
		if shape.Cwd != "" {
			add = append(add, "--cwd "+quoted(shape.Cwd))
		}
		add = append(add, "-- "+quoted(shape.Command))
		for _, arg := range argv {
			add = append(add, quoted(arg))
		}
	}
	if k.unclear || len(k.credentials) == 0 {
		return nil, false
	}
	for _, credential := range k.credentials {
		commands = append(commands, "mcpx credential set "+credential)
	}
	return append(commands, strings.Join(add, " "), "mcpx catalog review "+candidate+" --merge "+name), k.guessed
}

func hidden(arg string) bool { return strings.Contains(arg, catalog.Redacted) }

// keepOut gathers what becomes of the secrets of one command.
type keepOut struct {
	name        string
	options     []string // of server add
	credentials []string
	guessed     bool
	unclear     bool
}

// credential names the value of a variable or header, once.
func (k *keepOut) credential(variable string) string {
	credential := credentialName(k.name, variable)
	if !slices.Contains(k.credentials, credential) {
		k.credentials = append(k.credentials, credential)
	}
	return credential
}

func (k *keepOut) variable(variable string, guessed bool) {
	k.guessed = k.guessed || guessed
	k.options = append(k.options, "--env-from "+variable+"="+catalog.CredentialRef(k.credential(variable)))
}

// program gives the arguments without those that hold a secret.
func (k *keepOut) program(args []string) []string {
	var out []string
	for i, arg := range args {
		last := ""
		if i > 0 {
			last = args[i-1]
		}
		before, value, assigned := strings.Cut(arg, "=")
		variable, option := strings.TrimLeft(before, "-"), strings.HasPrefix(before, "-")
		switch {
		case !hidden(arg):
			out = append(out, arg)
		case arg == catalog.Redacted && containerEnv(last), value == catalog.Redacted && containerEnv(before):
			k.unclear = true // the name of the variable was hidden with its value
		case arg == catalog.Redacted && strings.HasPrefix(last, "-") && !strings.Contains(last, "="):
			out = out[:len(out)-1] // the option goes with its value
			k.variable(catalog.VariableFor(strings.TrimLeft(last, "-")), true)
		case arg == catalog.Redacted:
			k.variable(catalog.VariableFor(k.name)+"_TOKEN", true)
		case assigned && !option && value == catalog.Redacted && containerEnv(last):
			out = append(out, variable) // the container takes the variable from its launcher
			k.variable(variable, false)
		case assigned && !option && value == catalog.Redacted: // env NAME=VALUE PROGRAM
			k.variable(variable, false)
		case assigned && option && value == catalog.Redacted:
			k.variable(catalog.VariableFor(variable), true)
		case assigned && option && strings.HasSuffix(value, "="+catalog.Redacted): // --env=NAME=VALUE
			variable, _, _ := strings.Cut(value, "=")
			out = append(out, before+"="+variable)
			k.variable(variable, false)
		default:
			k.unclear = true
		}
	}
	return out
}

// containerEnv says whether an option of docker and podman sets a variable.
func containerEnv(option string) bool { return option == "-e" || option == "--env" }

// remote gives the options of server add for a program that only reaches a URL.
func (k *keepOut) remote(args []string) []string {
	var options []string
	for i, arg := range args {
		switch {
		case strings.HasPrefix(arg, "https://") || strings.HasPrefix(arg, "http://"):
			k.unclear = k.unclear || hidden(arg)
			options = append([]string{"--url " + quoted(arg)}, options...)
		case i > 0 && (args[i-1] == "--header" || args[i-1] == "-H"):
			name, value, ok := strings.Cut(arg, ":")
			if value = strings.TrimSpace(value); !ok || hidden(value) && value != catalog.Redacted {
				k.unclear = true
				continue
			}
			if value == catalog.Redacted {
				value = "{" + catalog.CredentialRef(k.credential(name)) + "}"
			}
			options = append(options, "--header "+quoted(name+"="+value))
		case hidden(arg):
			k.unclear = true
		}
	}
	return options
}
