package catalog

import (
	"slices"
	"strings"

	"mcpx/internal/lazyregexp"
)

// Options of launchers that take a value as the next argument. Every other option stands alone; one that is in neither
// list makes the identity weak.
var (
	npmValued = words("-p --package -c --call -w --workspace --registry --node-options --cache --userconfig --prefix --loglevel --node-arg -n --shell --script-shell")
	npmAlone  = words("-y --yes --no -q --quiet --silent --prefer-offline --offline --prefer-online --no-install --ignore-existing --bun --workspaces --include-workspace-root -s --allow-build")
	uvValued  = words("--from --with -w --with-editable --with-requirements --python -p --index --index-url -i --default-index --extra-index-url --find-links -f --directory --project --env-file --cache-dir --constraints -c --overrides --refresh-package --upgrade-package -P --extra --group --only-group --no-group --package --config-file --prerelease --resolution --index-strategy --keyring-provider --link-mode --python-platform --exclude-newer --allow-insecure-host --config-setting -C --color --build-constraints -b")
	uvAlone   = words("-q --quiet -v --verbose --isolated --no-cache -n --refresh -U --upgrade --offline --no-config --native-tls --system-certs --managed-python --no-managed-python --no-python-downloads --no-progress --no-env-file --all-extras --dev --no-dev --frozen --locked --no-sync --exact --no-project --active --inexact --no-build --no-binary --compile-bytecode --no-index --reinstall --all-groups --all-packages --no-default-groups --only-dev --no-editable --no-sources --torch-backend --lfs -s --script --gui-script")
	pipxVal   = words("--spec --python --pip-args --index-url -i --backend --with --fetch-missing-python-version")
	pipxAlone = words("--no-cache -q --quiet -v --verbose --pypackages --system-site-packages --fetch-missing-python --path")
	pyValued  = words("-W -X --check-hash-based-pycs")
	pyAlone   = words("-b -bb -B -d -E -i -I -O -OO -P -q -s -S -u -v -x")

	nodeValued = words("-r --require --import --loader --experimental-loader -C --conditions --env-file --env-file-if-exists --max-old-space-size --title --inspect-port --icu-data-dir --openssl-config")
	denoValued = words("-c --config --import-map --cert --location --lock --seed -L --log-level --env-file")

	dockerGlobal = words("--context -c --host -H --config --log-level -l --tlscacert --tlscert --tlskey --connection --url --identity --root --runroot")
	dockerValued = words("-e --env --env-file -v --volume --mount --tmpfs --name --network --net -p --publish --expose -u --user -w --workdir --entrypoint --platform --pull -m --memory --cpus --cpu-shares -c --add-host --dns --hostname -h --label -l --label-file --log-driver --log-opt --restart --runtime --security-opt --cap-add --cap-drop --device --gpus --group-add --ulimit --shm-size --stop-signal --stop-timeout --cidfile --ipc --pid --userns --uts --cgroupns --memory-swap --pids-limit --secret --volumes-from --volume-driver --network-alias --ip --ip6 --mac-address --link --sysctl --isolation --attach -a --detach-keys --annotation --cpuset-cpus --health-cmd")
	dockerAlone  = words("-i --interactive -t --tty -it -ti -d --detach --rm --init --privileged --read-only -P --publish-all --no-healthcheck --oom-kill-disable --sig-proxy -q --quiet --disable-content-trust --use-api-socket")
	// Kept options decide what is installed, or what reaches the program.
	npmKept    = words("--registry")
	uvKept     = words("--with -w --with-editable --with-requirements --index --index-url -i --default-index --extra-index-url --find-links -f --overrides --constraints -c")
	dockerKept = words("-e --env --env-file -v --volume --mount")
)

func words(s string) []string { return strings.Fields(s) }

// option is one launcher option with its value.
type option struct{ name, value string }

// options reads the launcher's own options from the front of args.
func options(args, valued, alone []string) (opts []option, rest []string, weak bool) {
	for len(args) > 0 {
		a := args[0]
		if a == "--" {
			return opts, args[1:], weak
		}
		if !strings.HasPrefix(a, "-") || a == "-" {
			return opts, args, weak
		}
		name, value, assigned := strings.Cut(a, "=")
		args = args[1:]
		switch {
		case assigned:
		case slices.Contains(valued, name) && len(args) > 0:
			value, args = args[0], args[1:]
		case slices.Contains(alone, name):
		case len(name) > 2 && name[1] != '-' && slices.Contains(valued, name[:2]): // -eNAME, -p8080:80
			name, value = name[:2], name[2:]
		default:
			weak = true
		}
		opts = append(opts, option{name, value})
	}
	return opts, nil, weak
}

// valueOf is the value of the first option that has one of the names.
func valueOf(opts []option, names ...string) string {
	for _, o := range opts {
		if slices.Contains(names, o.name) && o.value != "" {
			return o.value
		}
	}
	return ""
}

// kept lists the options of the names, without what may be a secret in them.
func kept(opts []option, names []string) []string {
	var out []string
	for _, o := range opts {
		if !slices.Contains(names, o.name) {
			continue
		}
		value := HideURL(o.value)
		if o.name == "-e" || o.name == "--env" {
			value, _, _ = strings.Cut(o.value, "=") // the value may be a secret
		}
		out = append(out, o.name+" "+value)
	}
	return out
}

func npm(via string, args []string) Package {
	opts, rest, weak := options(args, npmValued, npmAlone)
	p := Package{Via: via, Weak: weak, Options: kept(opts, npmKept)}
	spec := valueOf(opts, "-p", "--package")
	if via == "pnpm dlx" || via == "bunx" || via == "bun x" { // there -p is not short for --package
		spec = valueOf(opts, "--package")
	}
	switch {
	case spec == "" && len(rest) == 0:
		return Package{Kind: PackageBinary, Name: via, Via: via, Weak: true}
	case spec == "":
		spec, p.Rest = rest[0], rest[1:]
	case len(rest) > 0:
		p.Entry, p.Rest = rest[0], rest[1:]
	}
	p.Kind, p.Name, p.Version = npmSpec(spec)
	return p
}

// npmSpec reads NAME[@VERSION], an alias NAME@npm:REAL, a git or a local source.
func npmSpec(spec string) (kind PackageKind, name, version string) {
	if kind, name, version, ok := gitSpec(spec); ok {
		return kind, name, version
	}
	if strings.HasPrefix(spec, ".") || strings.HasPrefix(spec, "/") || strings.HasPrefix(spec, "file:") {
		return PackagePath, strings.TrimPrefix(spec, "file:"), ""
	}
	if i := strings.LastIndex(spec, "@npm:"); i > 0 {
		spec = spec[i+len("@npm:"):]
	}
	spec = strings.TrimPrefix(spec, "npm:")
	if i := strings.Index(spec, "@"); i > 0 || strings.HasPrefix(spec, "@") {
		if i == 0 {
			i = strings.Index(spec[1:], "@") + 1
		}
		if i > 0 {
			return PackageNPM, spec[:i], spec[i+1:]
		}
	} else if strings.Count(spec, "/") == 1 { // user/repo
		return PackageGit, "https://github.com/" + spec, ""
	}
	return PackageNPM, spec, ""
}

// gitSpec reads git+URL[@REV or #REV], git://, github:USER/REPO[#REV] and the like.
func gitSpec(spec string) (kind PackageKind, name, version string, ok bool) {
	for short, host := range map[string]string{"github:": "github.com", "gitlab:": "gitlab.com", "bitbucket:": "bitbucket.org"} {
		if rest, found := strings.CutPrefix(spec, short); found {
			spec = "git+https://" + host + "/" + rest
		}
	}
	switch {
	case strings.HasPrefix(spec, "git+"):
		spec = strings.TrimPrefix(spec, "git+")
	case strings.HasPrefix(spec, "git://"), strings.HasPrefix(spec, "git@"):
	case strings.HasPrefix(spec, "https://") && strings.HasSuffix(spec, ".git"):
	default:
		return "", "", "", false
	}
	name, version, _ = strings.Cut(spec, "#")
	if i := strings.LastIndex(name, "@"); version == "" && i > strings.LastIndex(name, "/") {
		name, version = name[:i], name[i+1:]
	}
	return PackageGit, strings.TrimSuffix(RedactURL(name), ".git"), version, true
}

func uvx(via string, args []string) Package {
	opts, rest, weak := options(args, uvValued, uvAlone)
	p := Package{Via: via, Weak: weak, Options: kept(opts, uvKept)}
	spec := valueOf(opts, "--from")
	if len(rest) > 0 {
		if spec == "" {
			spec = rest[0]
		} else {
			p.Entry = rest[0]
		}
		p.Rest = rest[1:]
	}
	if spec == "" {
		return Package{Kind: PackageBinary, Name: via, Via: via, Weak: true}
	}
	p.Kind, p.Name, p.Version = pypiSpec(spec)
	p.Options = append(p.Options, extras(spec)...)
	if p.Entry == p.Name {
		p.Entry = ""
	}
	return p
}

func pipx(args []string) Package {
	opts, rest, weak := options(args, pipxVal, pipxAlone)
	p := Package{Via: "pipx run", Weak: weak, Options: kept(opts, uvKept)}
	spec := valueOf(opts, "--spec")
	if len(rest) > 0 {
		if spec == "" {
			spec = rest[0]
		} else {
			p.Entry = rest[0]
		}
		p.Rest = rest[1:]
	}
	p.Kind, p.Name, p.Version = pypiSpec(spec)
	p.Options = append(p.Options, extras(spec)...)
	if p.Entry == p.Name {
		p.Entry = ""
	}
	return p
}

// extras are the optional parts of a package that a requirement asks for.
func extras(spec string) []string {
	m := pypiRequirement().FindStringSubmatch(spec)
	if m == nil || m[2] == "" {
		return nil
	}
	return []string{strings.ToLower(strings.ReplaceAll(m[2], " ", ""))}
}

var pypiRequirement = lazyregexp.New(`^([A-Za-z0-9][A-Za-z0-9._-]*)\s*(\[[^\]]*\])?\s*(.*)$`)

// pypiSpec reads NAME[EXTRAS]==V, NAME@V as uvx writes it, NAME @ URL, a git or a local source.
func pypiSpec(spec string) (kind PackageKind, name, version string) {
	if _, source, found := strings.Cut(spec, " @ "); found {
		spec = strings.TrimSpace(source)
	}
	if kind, name, version, ok := gitSpec(spec); ok {
		return kind, name, version
	}
	if strings.HasPrefix(spec, ".") || strings.HasPrefix(spec, "/") || strings.HasSuffix(spec, ".whl") {
		return PackagePath, spec, ""
	}
	m := pypiRequirement().FindStringSubmatch(spec)
	if m == nil {
		return PackagePath, spec, ""
	}
	version = strings.TrimPrefix(strings.TrimPrefix(m[3], "@"), "==")
	return PackagePyPI, pypiName(m[1]), strings.TrimSpace(version)
}

var pypiRun = lazyregexp.New(`[-_.]+`)

// pypiName is the normalised name of the Python packaging rules.
func pypiName(name string) string { return pypiRun().ReplaceAllString(strings.ToLower(name), "-") }

func uvRun(args []string) Package {
	valued := slices.DeleteFunc(slices.Clone(uvValued), func(o string) bool { return o == "-m" })
	opts, rest, weak := options(args, append(valued, "-m", "--module"), uvAlone)
	if module := valueOf(opts, "-m", "--module"); module != "" {
		return Package{Kind: PackagePyPI, Name: pypiName(module), Entry: "-m", Rest: rest, Via: "uv run", Weak: weak, Options: kept(opts, uvKept)}
	}
	if len(rest) == 0 {
		return Package{Kind: PackageBinary, Name: "uv run", Via: "uv run", Weak: true}
	}
	var p Package
	switch {
	case isPython(programName(rest[0])):
		p = python(programName(rest[0]), rest[1:])
	case strings.ContainsAny(rest[0], "/") || strings.HasSuffix(rest[0], ".py"):
		p = Package{Kind: PackagePath, Name: rest[0], Rest: rest[1:]}
	default: // a script of the project or of a --with package: the name is a guess
		p = Package{Kind: PackagePyPI, Name: pypiName(rest[0]), Rest: rest[1:], Weak: true}
	}
	p.Via, p.Weak, p.Options = "uv run", p.Weak || weak, kept(opts, uvKept)
	return p
}

var pythonName = lazyregexp.New(`^((python|pypy)[0-9.]*w?|pyw?)$`)

func isPython(name string) bool { return pythonName().MatchString(name) }

func python(via string, args []string) Package {
	var opts []option
	rest, weak := args, false
	for i, a := range args { // -m ends the options of python itself
		if a == "-m" && i+1 < len(args) {
			return Package{Kind: PackagePyPI, Name: pypiName(args[i+1]), Entry: "-m", Rest: args[i+2:], Via: "python"}
		}
		if !strings.HasPrefix(a, "-") && (i == 0 || !slices.Contains(pyValued, args[i-1])) {
			break
		}
	}
	opts, rest, weak = options(rest, pyValued, pyAlone)
	if len(rest) == 0 {
		return Package{Kind: PackageBinary, Name: via, Rest: args, Weak: len(opts) > 0}
	}
	return Package{Kind: PackagePath, Name: rest[0], Rest: rest[1:], Via: "python", Weak: weak}
}

// script reads node FILE and deno run SOURCE: options that start with two hyphens and carry no value are common and
// harmless, so an unknown one does not weaken the identity.
func script(via string, args, valued []string) Package {
	_, rest, _ := options(args, valued, nil)
	if len(rest) == 0 {
		return Package{Kind: PackageBinary, Name: via, Rest: args, Weak: true}
	}
	p := Package{Kind: PackagePath, Name: rest[0], Rest: rest[1:], Via: via}
	if spec, ok := strings.CutPrefix(rest[0], "jsr:"); ok {
		_, p.Name, p.Version = npmSpec(spec)
		p.Kind = PackageJSR
	} else if spec, ok := strings.CutPrefix(rest[0], "npm:"); ok {
		p.Kind, p.Name, p.Version = npmSpec(spec)
	}
	return p
}

func goRun(args []string) Package {
	_, rest, weak := options(args, words("-C -mod -modfile -tags -ldflags -exec"), words("-race -x -v -n -a -trimpath"))
	if len(rest) == 0 {
		return Package{Kind: PackageBinary, Name: "go", Rest: args, Weak: true}
	}
	name, version, found := strings.Cut(rest[0], "@")
	if !found {
		return Package{Kind: PackagePath, Name: rest[0], Rest: rest[1:], Via: "go run", Weak: weak}
	}
	return Package{Kind: PackageGo, Name: name, Version: version, Rest: rest[1:], Via: "go run", Weak: weak}
}

func container(via string, argv []string) Package {
	_, rest, weak := options(argv[1:], dockerGlobal, []string{"--debug", "-D", "--tls", "--tlsverify", "--remote", "-r"})
	if len(rest) > 0 && rest[0] == "container" {
		rest = rest[1:]
	}
	if len(rest) == 0 || rest[0] != "run" {
		return binary(argv)
	}
	opts, rest, odd := options(rest[1:], dockerValued, dockerAlone)
	if len(rest) == 0 {
		return binary(argv)
	}
	p := Package{Kind: PackageOCI, Via: via + " run", Rest: rest[1:], Weak: weak || odd, Options: kept(opts, dockerKept)}
	for _, o := range opts {
		if o.name == "--entrypoint" {
			p.Entry = o.value
		}
	}
	p.Name, p.Version = ociSpec(rest[0])
	return p
}

// ociSpec reads [REGISTRY/]REPOSITORY[:TAG][@DIGEST]; the registry and the namespace of Docker are filled in.
func ociSpec(ref string) (name, version string) {
	name, digest, _ := strings.Cut(ref, "@")
	if i := strings.LastIndex(name, ":"); i > strings.LastIndex(name, "/") {
		name, version = name[:i], name[i+1:]
	}
	if digest != "" {
		version = digest
	}
	first, _, slash := strings.Cut(name, "/")
	switch {
	case !slash:
		name = "docker.io/library/" + name
	case !strings.ContainsAny(first, ".:") && first != "localhost":
		name = "docker.io/" + name
	}
	return name, version
}
