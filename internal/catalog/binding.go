package catalog

import (
	"strings"
)

// Refs lists the credential references of a binding, in order.
func (b Binding) Refs() ([]string, error) {
	if b.Ref != "" {
		return []string{b.Ref}, validRef(b.Ref)
	}
	var refs []string
	_, err := expand(b.Template, func(ref string) (string, error) {
		refs = append(refs, ref)
		return "", nil
	})
	if err == nil && b.Template != "" && len(refs) == 0 {
		return nil, invalid("template", "holds no reference").Hinting("write one as {env:NAME}, or use a literal")
	}
	return refs, err
}

// Value builds the value: resolve gives what is behind a reference.
func (b Binding) Value(resolve func(ref string) (string, error)) (string, error) {
	if b.Unresolved {
		return "", invalid("binding", "nobody has said where its value comes from").Hinting("bind it with `mcpx catalog review NAME --bind VARIABLE=env:VARIABLE`")
	}
	if b.Ref != "" {
		return resolve(b.Ref)
	}
	if b.Template != "" {
		return expand(b.Template, resolve)
	}
	return b.Literal, nil
}

// expand replaces each {REF}. A reference cannot hold a brace.
func expand(template string, resolve func(string) (string, error)) (string, error) {
	var out strings.Builder
	for rest := template; rest != ""; {
		text, tail, found := strings.Cut(rest, "{")
		out.WriteString(text)
		if !found {
			break
		}
		ref, tail, closed := strings.Cut(tail, "}")
		if !closed {
			return "", invalid("template", "a { is not closed").Hinting("write a reference as {env:NAME}")
		}
		if err := validRef(ref); err != nil {
			return "", err
		}
		v, err := resolve(ref)
		if err != nil {
			return "", err
		}
		out.WriteString(v)
		rest = tail
	}
	return out.String(), nil
}

// validRef checks the shape KIND:WHERE; the kinds are known to package secret.
func validRef(ref string) error {
	kind, where, ok := strings.Cut(ref, ":")
	if !ok || kind == "" || where == "" || strings.ContainsAny(kind, " /\\") {
		return invalid("reference", "it is not written as KIND:WHERE").Hinting("for example env:GITHUB_TOKEN or file:/path/to/file#KEY")
	}
	return nil
}

// VariableFor proposes the name of a variable for what is bound.
func VariableFor(name string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z':
			return r - 'a' + 'A'
		case r >= 'A' && r <= 'Z', r >= '0' && r <= '9':
			return r
		}
		return '_'
	}, name)
}
