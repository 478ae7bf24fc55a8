package catalog

import (
	"net/url"
	"path"
	"strings"
)

// PackageKind says in which world the name of a package lives.
type PackageKind string

// The kinds of package identity, governance.md section 2.4.
const (
	PackageNPM    PackageKind = "npm"
	PackagePyPI   PackageKind = "pypi"
	PackageOCI    PackageKind = "oci"
	PackageGit    PackageKind = "git"
	PackageJSR    PackageKind = "jsr"
	PackageGo     PackageKind = "go"
	PackagePath   PackageKind = "path"
	PackageBinary PackageKind = "binary"
	PackageURL    PackageKind = "url"
)

// Package is what a command or a URL runs, whatever launcher, path or spelling it is started with.
type Package struct {
	Kind    PackageKind `json:"kind"`
	Name    string      `json:"name"`
	Version string      `json:"version,omitempty"` // version, tag, range, revision or digest as written; "" none
	Entry   string      `json:"entry,omitempty"`   // program inside the package, when it is not the package's own name
	Rest    []string    `json:"rest,omitempty"`    // arguments of the program
	Via     string      `json:"via,omitempty"`     // launcher; "" for a plain binary and a URL
	Peeled  []string    `json:"peeled,omitempty"`  // what stood before the launcher: "env NAME", "cmd /c"
	Options []string    `json:"options,omitempty"` // launcher options that change what runs: docker -e NAME, -v; --with, --registry; [EXTRA]
	Weak    bool        `json:"weak,omitempty"`    // an unknown launcher option: the rest may be misread
}

// Pinned says whether the version names exactly one content, as far as the registry keeps its word.
func (p Package) Pinned() bool {
	switch {
	case p.Version == "" || p.Version == "latest" || p.Version == "next":
		return false
	case p.Kind == PackageOCI:
		return strings.HasPrefix(p.Version, "sha256:")
	case p.Kind == PackageGit:
		return true
	}
	return isDigit(p.Version[0]) && !strings.ContainsAny(p.Version, "*xX<>=~^| ,") || p.Version[0] == 'v' && p.Kind == PackageGo
}

// Identify computes the package of an entry. False: the entry is a bridge of mcpx itself, or has no backend.
func Identify(s Server) (Package, bool) {
	switch {
	case s.Stdio != nil:
		return IdentifyCommand(s.Stdio.Command, s.Stdio.Args)
	case s.HTTP != nil:
		return IdentifyURL(s.HTTP.URL), true
	}
	return Package{}, false
}

// IdentifyURL normalises a URL: scheme and host in lower case, no default port, no trailing slash, sorted query;
// every spelling of this machine is 127.0.0.1.
func IdentifyURL(raw string) Package {
	p := Package{Kind: PackageURL, Name: raw}
	u, err := url.Parse(RedactURL(raw))
	if err != nil || u.Host == "" {
		return p
	}
	u.Scheme = strings.ToLower(u.Scheme)
	host, port := strings.ToLower(u.Hostname()), u.Port()
	if IsLoopback(host) {
		host = "127.0.0.1"
	} else if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	if u.Scheme == "http" && port == "80" || u.Scheme == "https" && port == "443" {
		port = ""
	}
	if port != "" {
		host += ":" + port
	}
	u.Host, u.User, u.Fragment = host, nil, ""
	u.Path, u.RawPath = strings.TrimRight(u.Path, "/"), strings.TrimRight(u.RawPath, "/")
	if q, err := url.ParseQuery(u.RawQuery); err == nil {
		u.RawQuery = q.Encode()
	}
	p.Name = u.String()
	return p
}

// IdentifyCommand peels launchers off an argv. False for mcpx's own bridge (`mcpx connect`).
func IdentifyCommand(command string, args []string) (Package, bool) {
	argv := append([]string{command}, args...)
	argv, peeled := peel(argv)
	if len(argv) == 0 {
		return Package{Kind: PackageBinary, Name: programName(command), Peeled: peeled}, true
	}
	name := programName(argv[0])
	if name == "mcpx" && len(argv) > 1 && argv[1] == "connect" {
		return Package{}, false
	}
	p := launched(name, argv)
	if p.Kind == PackageNPM && p.Name == "mcp-remote" {
		for _, a := range p.Rest {
			if strings.HasPrefix(a, "http://") || strings.HasPrefix(a, "https://") {
				p = IdentifyURL(a)
				p.Via = "mcp-remote"
				break
			}
		}
	}
	p.Peeled = peeled
	return p, true
}

// programName is the base name of a program without the endings of Windows launchers.
func programName(command string) string {
	base := path.Base(strings.ReplaceAll(command, `\`, "/"))
	for _, end := range []string{".cmd", ".exe", ".ps1", ".bat"} {
		if len(base) > len(end) && strings.EqualFold(base[len(base)-len(end):], end) {
			return strings.ToLower(base[:len(base)-len(end)])
		}
	}
	return base
}

// peel removes `env [-i] NAME=V` and `cmd /c` from the front.
func peel(argv []string) (rest, peeled []string) {
	for len(argv) > 1 {
		switch name := programName(argv[0]); {
		case name == "env":
			argv = argv[1:]
			for len(argv) > 0 && (strings.HasPrefix(argv[0], "-") || strings.Contains(argv[0], "=")) {
				variable, _, _ := strings.Cut(argv[0], "=") // the value may be a secret
				peeled = append(peeled, "env "+variable)
				argv = argv[1:]
			}
		case name == "cmd" && strings.EqualFold(argv[1], "/c"):
			peeled = append(peeled, "cmd /c")
			argv = argv[2:]
		default:
			return argv, peeled
		}
	}
	return argv, peeled
}

// launched reads one launcher's argv; argv[0] is the launcher itself.
func launched(name string, argv []string) Package {
	second := ""
	if len(argv) > 1 {
		second = argv[1]
	}
	switch name {
	case "npx", "pnpx", "bunx":
		return npm(name, argv[1:])
	case "npm":
		if second == "exec" || second == "x" {
			return npm("npm exec", argv[2:])
		}
	case "pnpm", "yarn":
		if second == "dlx" {
			return npm(name+" dlx", argv[2:])
		}
	case "bun":
		if second == "x" {
			return npm("bun x", argv[2:])
		}
	case "uvx":
		return uvx("uvx", argv[1:])
	case "uv":
		if second == "tool" && len(argv) > 2 && argv[2] == "run" {
			return uvx("uv tool run", argv[3:])
		}
		if second == "run" {
			return uvRun(argv[2:])
		}
	case "pipx":
		if second == "run" {
			return pipx(argv[2:])
		}
	case "docker", "podman":
		return container(name, argv)
	case "node", "nodejs":
		return script("node", argv[1:], nodeValued)
	case "deno":
		if second == "run" {
			return script("deno", argv[2:], denoValued)
		}
	case "go":
		if second == "run" {
			return goRun(argv[2:])
		}
	}
	if isPython(name) {
		return python(name, argv[1:])
	}
	return binary(argv)
}

func binary(argv []string) Package {
	name := argv[0]
	if !strings.ContainsAny(name, `/\`) {
		name = programName(name)
	}
	return Package{Kind: PackageBinary, Name: name, Rest: argv[1:]}
}
