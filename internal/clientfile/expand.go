package clientfile

import (
	"regexp"
	"strings"

	"mcpx/internal/catalog"
	"mcpx/internal/fault"
	"mcpx/internal/lazyregexp"
)

// world is where the references of an agent lead.
type world struct {
	lookup   func(name string) (string, bool)
	readFile func(path string) (string, error) // relative paths start at the file with the reference
	home     string
	folder   string // the project, as an editor opens it; "" none
}

// expander replaces the references in one value, as the agent does.
type expander func(value string, w world) (string, error)

var (
	bracedRef = lazyregexp.New(`\$\{([A-Za-z_][A-Za-z0-9_]*)(:-([^}]*))?\}`)
	plainRef  = lazyregexp.New(`\$([A-Za-z_][A-Za-z0-9_]*)|\$\{([A-Za-z_][A-Za-z0-9_]*)\}`)
	shellRef  = lazyregexp.New(`\$([A-Za-z_][A-Za-z0-9_]*)|\$\{([A-Za-z_][A-Za-z0-9_]*)(:-([^}]*))?\}`)
	secretRef = lazyregexp.New(`\$\{\{\s*(?:secrets\.([A-Za-z_][A-Za-z0-9_]*)\s*|[^}]*)\}\}`)
	editorRef = lazyregexp.New(`\$\{([^}]*)\}`)
	bareRef   = lazyregexp.New(`\$([A-Za-z_][A-Za-z0-9_]*)`)
	curlyRef  = lazyregexp.New(`\{(env|file):([^}]+)\}`)
)

// replace calls one for each match; the first error ends it.
func replace(value string, reference func() *regexp.Regexp, one func(m []string) (string, error)) (string, error) {
	var failed error
	ref := reference()
	out := ref.ReplaceAllStringFunc(value, func(s string) string {
		v, err := one(ref.FindStringSubmatch(s))
		if err != nil && failed == nil {
			failed = err
		}
		return v
	})
	return out, failed
}

func unset(name string) error {
	return fault.New(fault.Unavailable, "credential-missing").
		Saying("the variable %s is not set", name).
		Hinting("set it in the shell that starts mcpx").Retrying(fault.AfterFix)
}

// expandBraces is Claude's: ${V} and ${V:-default}; a variable that is not set and has no default is an error there
// too.
func expandBraces(value string, w world) (string, error) {
	return replace(value, bracedRef, func(m []string) (string, error) {
		if v, ok := w.lookup(m[1]); ok {
			return v, nil
		}
		if m[2] != "" {
			return m[3], nil
		}
		return "", unset(m[1])
	})
}

// expandDollar is Gemini's: $V, ${V} and ${V:-default}. A bare $V that is not set stays as it is, there too.
func expandDollar(value string, w world) (string, error) {
	var out strings.Builder
	for rest := value; rest != ""; {
		i := strings.IndexByte(rest, '$')
		if i < 0 {
			out.WriteString(rest)
			break
		}
		out.WriteString(rest[:i])
		rest = rest[i:]
		ref, by := bareRef, expandBare
		if strings.HasPrefix(rest, "${") {
			ref, by = bracedRef, expandBraces
		}
		at := ref().FindStringIndex(rest)
		if at == nil || at[0] != 0 {
			out.WriteByte('$')
			rest = rest[1:]
			continue
		}
		v, err := by(rest[:at[1]], w)
		if err != nil {
			return "", err
		}
		out.WriteString(v)
		rest = rest[at[1]:]
	}
	return out.String(), nil
}

func expandBare(ref string, w world) (string, error) {
	if v, ok := w.lookup(ref[1:]); ok {
		return v, nil
	}
	return ref, nil
}

// expandPlain is Qwen's: $V and ${V}, without defaults. As with Gemini, a bare $V that is not set stays as it is.
func expandPlain(value string, w world) (string, error) {
	return replace(value, plainRef, func(m []string) (string, error) {
		if v, ok := w.lookup(m[1] + m[2]); ok {
			return v, nil
		}
		if m[2] != "" {
			return "", unset(m[2])
		}
		return m[0], nil
	})
}

// expandCurly is OpenCode's: {env:V}, empty when it is not set, and {file:path}.
func expandCurly(value string, w world) (string, error) {
	return replace(value, curlyRef, func(m []string) (string, error) {
		if m[1] == "env" {
			v, _ := w.lookup(m[2])
			return v, nil
		}
		v, err := w.readFile(m[2])
		return strings.TrimSpace(v), err
	})
}

// expandEditor is that of VS Code and Cursor: ${env:V}, ${userHome} and ${workspaceFolder}. What an editor would ask
// for, as ${input:V}, nobody can answer here.
func expandEditor(value string, w world) (string, error) {
	return replace(value, editorRef, func(m []string) (string, error) {
		name, isVariable := strings.CutPrefix(m[1], "env:")
		switch {
		case isVariable:
			if v, ok := w.lookup(name); ok {
				return v, nil
			}
			return "", unset(name)
		case m[1] == "userHome":
			return w.home, nil
		case m[1] == "workspaceFolder" && w.folder != "":
			return w.folder, nil
		}
		return "", foreign()
	})
}

// expandShell is Crush's, which asks a shell: variables are followed as far as they are plain, commands are not run.
func expandShell(value string, w world) (string, error) {
	if strings.Contains(value, "$(") || strings.Contains(value, "`") {
		return "", foreign()
	}
	return replace(value, shellRef, func(m []string) (string, error) {
		name := m[1] + m[2]
		if v, ok := w.lookup(name); ok {
			return v, nil
		}
		if m[3] != "" {
			return m[4], nil
		}
		return "", unset(name)
	})
}

// expandSecrets is Continue's ${{ secrets.V }}, which is a variable here; inputs come from the hub.
func expandSecrets(value string, w world) (string, error) {
	return replace(value, secretRef, func(m []string) (string, error) {
		if m[1] == "" {
			return "", foreign()
		}
		if v, ok := w.lookup(m[1]); ok {
			return v, nil
		}
		return "", unset(m[1])
	})
}

// expandUnknown is for agents that nobody saw expand anything: a reference may be one, or be taken literally.
func expandUnknown(value string, _ world) (string, error) {
	if catalog.HasTemplate(value) {
		return "", foreign()
	}
	return value, nil
}

// foreign is the refusal of a reference that mcpx cannot follow. It does not quote it: a command may hold a secret.
func foreign() error {
	return fault.New(fault.Invalid, "entry-unsupported").
		Saying("it holds a reference that only the agent can follow").
		Hinting("add it with `mcpx server add`, and write the value out or name a credential")
}
