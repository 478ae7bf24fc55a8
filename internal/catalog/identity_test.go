package catalog

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestIdentifyCommand(t *testing.T) {
	for line, want := range map[string]Package{
		"npx -y @upstash/context7-mcp":                                 {Kind: "npm", Name: "@upstash/context7-mcp", Via: "npx"},
		"npx @a/b@1.2.3 --x y":                                         {Kind: "npm", Name: "@a/b", Version: "1.2.3", Rest: []string{"--x", "y"}, Via: "npx"},
		"npx --yes b@latest":                                           {Kind: "npm", Name: "b", Version: "latest", Via: "npx"},
		"npx -p @a/b bin -q":                                           {Kind: "npm", Name: "@a/b", Entry: "bin", Rest: []string{"-q"}, Via: "npx"},
		"npx --package=@a/b@2 -y -- bin":                               {Kind: "npm", Name: "@a/b", Version: "2", Entry: "bin", Via: "npx"},
		"npx --registry http://x b":                                    {Kind: "npm", Name: "b", Via: "npx", Options: []string{"--registry http://x"}},
		"npx --registry=https://u:hunter2@x b":                         {Kind: "npm", Name: "b", Via: "npx", Options: []string{"--registry https://redacted@x"}},
		"pnpm.cmd dlx --package @a/b bin":                              {Kind: "npm", Name: "@a/b", Entry: "bin", Via: "pnpm dlx"},
		"yarn dlx -p @a/b@~1 bin":                                      {Kind: "npm", Name: "@a/b", Version: "~1", Entry: "bin", Via: "yarn dlx"},
		"bunx @a/b@2 x":                                                {Kind: "npm", Name: "@a/b", Version: "2", Rest: []string{"x"}, Via: "bunx"},
		"npm x --package=b -- c d":                                     {Kind: "npm", Name: "b", Entry: "c", Rest: []string{"d"}, Via: "npm exec"},
		"py -m mcp_server_time":                                        {Kind: "pypi", Name: "mcp-server-time", Entry: "-m", Via: "python"},
		"uvx Pkg[Cli,b]==1":                                            {Kind: "pypi", Name: "pkg", Version: "1", Via: "uvx", Options: []string{"[cli,b]"}},
		"uv run --with mcp[cli] server.py":                             {Kind: "path", Name: "server.py", Via: "uv run", Options: []string{"--with mcp[cli]"}},
		"/opt/homebrew/bin/podman run --env-file /e -v /a:/b q.io/r:2": {Kind: "oci", Name: "q.io/r", Version: "2", Via: "podman run", Options: []string{"--env-file /e", "-v /a:/b"}},
		"npx --odd b":                                                  {Kind: "npm", Name: "b", Via: "npx", Weak: true},
		"npx x@npm:@a/real@3":                                          {Kind: "npm", Name: "@a/real", Version: "3", Via: "npx"},
		"npx github:user/repo#v1":                                      {Kind: "git", Name: "https://github.com/user/repo", Version: "v1", Via: "npx"},
		"npx user/repo":                                                {Kind: "git", Name: "https://github.com/user/repo", Via: "npx"},
		"/usr/bin/npx.cmd b":                                           {Kind: "npm", Name: "b", Via: "npx"},
		`C:\node\NPX.CMD b`:                                            {Kind: "npm", Name: "b", Via: "npx"},
		"npm exec -- @a/b --flag":                                      {Kind: "npm", Name: "@a/b", Rest: []string{"--flag"}, Via: "npm exec"},
		"npm exec --yes b":                                             {Kind: "npm", Name: "b", Via: "npm exec"},
		"pnpm dlx b@1":                                                 {Kind: "npm", Name: "b", Version: "1", Via: "pnpm dlx"},
		"pnpx b":                                                       {Kind: "npm", Name: "b", Via: "pnpx"},
		"yarn dlx -q b":                                                {Kind: "npm", Name: "b", Via: "yarn dlx"},
		"bunx --bun b":                                                 {Kind: "npm", Name: "b", Via: "bunx"},
		"bun x b":                                                      {Kind: "npm", Name: "b", Via: "bun x"},
		"npm start":                                                    {Kind: "binary", Name: "npm", Rest: []string{"start"}},
		"npx -y mcp-remote https://X.com:443/mcp/ -h":                  {Kind: "url", Name: "https://x.com/mcp", Via: "mcp-remote"},
		"uvx mcp-server-github --readonly":                             {Kind: "pypi", Name: "mcp-server-github", Rest: []string{"--readonly"}, Via: "uvx"},
		"uvx Mcp_Server.Git==1.0":                                      {Kind: "pypi", Name: "mcp-server-git", Version: "1.0", Via: "uvx"},
		"uvx mcp-server-git@2.1":                                       {Kind: "pypi", Name: "mcp-server-git", Version: "2.1", Via: "uvx"},
		"uvx --from pkg[cli]>=2 run-it a":                              {Kind: "pypi", Name: "pkg", Version: ">=2", Entry: "run-it", Rest: []string{"a"}, Via: "uvx", Options: []string{"[cli]"}},
		"uvx --python 3.12 --with x tool":                              {Kind: "pypi", Name: "tool", Via: "uvx", Options: []string{"--with x"}},
		"uvx --from git+https://github.com/o/r@abc cmd":                {Kind: "git", Name: "https://github.com/o/r", Version: "abc", Entry: "cmd", Via: "uvx"},
		"uv tool run tool":                                             {Kind: "pypi", Name: "tool", Via: "uv tool run"},
		"pipx run --spec pkg==3 cmd":                                   {Kind: "pypi", Name: "pkg", Version: "3", Entry: "cmd", Via: "pipx run"},
		"pipx run cmd":                                                 {Kind: "pypi", Name: "cmd", Via: "pipx run"},
		"uv run --directory /src server.py --stdio":                    {Kind: "path", Name: "server.py", Rest: []string{"--stdio"}, Via: "uv run"},
		"uv run -m my_mod x":                                           {Kind: "pypi", Name: "my-mod", Entry: "-m", Rest: []string{"x"}, Via: "uv run"},
		"uv run python -m mod":                                         {Kind: "pypi", Name: "mod", Entry: "-m", Via: "uv run"},
		"uv run my-server":                                             {Kind: "pypi", Name: "my-server", Via: "uv run", Weak: true},
		"python3.12 -u -m mcp_server_time --tz UTC":                    {Kind: "pypi", Name: "mcp-server-time", Entry: "-m", Rest: []string{"--tz", "UTC"}, Via: "python"},
		"python /src/server.py -m x":                                   {Kind: "path", Name: "/src/server.py", Rest: []string{"-m", "x"}, Via: "python"},
		"docker run -i --rm -e TOKEN mcp/fetch":                        {Kind: "oci", Name: "docker.io/mcp/fetch", Via: "docker run", Options: []string{"-e TOKEN"}},
		"docker run -e A=hunter2 -v /a:/b ubuntu:24.04 sh":             {Kind: "oci", Name: "docker.io/library/ubuntu", Version: "24.04", Rest: []string{"sh"}, Via: "docker run", Options: []string{"-e A", "-v /a:/b"}},
		"podman run ghcr.io/o/r@sha256:ab x":                           {Kind: "oci", Name: "ghcr.io/o/r", Version: "sha256:ab", Rest: []string{"x"}, Via: "podman run"},
		"docker run --odd localhost:5000/r:1":                          {Kind: "oci", Name: "localhost:5000/r", Version: "1", Via: "docker run", Weak: true},
		"docker --context c container run img":                         {Kind: "oci", Name: "docker.io/library/img", Via: "docker run"},
		"docker compose up":                                            {Kind: "binary", Name: "docker", Rest: []string{"compose", "up"}},
		"node server.js":                                               {Kind: "path", Name: "server.js", Via: "node"},
		"node --experimental-x -r ./a.js /s/b.js c":                    {Kind: "path", Name: "/s/b.js", Rest: []string{"c"}, Via: "node"},
		"deno run -A jsr:@s/p@1 x":                                     {Kind: "jsr", Name: "@s/p", Version: "1", Rest: []string{"x"}, Via: "deno"},
		"deno run npm:@a/b":                                            {Kind: "npm", Name: "@a/b", Via: "deno"},
		"go run example.com/cmd/x@v1.2.0 -f":                           {Kind: "go", Name: "example.com/cmd/x", Version: "v1.2.0", Rest: []string{"-f"}, Via: "go run"},
		"my-server --stdio":                                            {Kind: "binary", Name: "my-server", Rest: []string{"--stdio"}},
		"/opt/bin/my-server":                                           {Kind: "binary", Name: "/opt/bin/my-server"},
		"env TOKEN=hunter2 B=2 npx b":                                  {Kind: "npm", Name: "b", Via: "npx", Peeled: []string{"env TOKEN", "env B"}},
		"/usr/bin/env node a.js":                                       {Kind: "path", Name: "a.js", Via: "node"},
		"cmd /c npx -y b":                                              {Kind: "npm", Name: "b", Via: "npx", Peeled: []string{"cmd /c"}},
	} {
		t.Run(line, func(t *testing.T) {
			argv := strings.Fields(line)
			got, ok := IdentifyCommand(argv[0], argv[1:])
			if !ok {
				t.Fatal("no identity")
			}
			if d := cmp.Diff(want, got, cmpopts.EquateEmpty()); d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
		})
	}
}

func TestIdentifyBridge(t *testing.T) {
	for _, argv := range [][]string{{"/home/ada/.local/bin/mcpx", "connect", "--agent", "cline", "x"}, {"env", "A=1", "mcpx", "connect", "x"}} {
		if p, ok := IdentifyCommand(argv[0], argv[1:]); ok {
			t.Errorf("%v is identified as %+v, want our own bridge", argv, p)
		}
	}
}

// TestIdentifyNeverPanics: argv of other people's files can be cut anywhere.
func TestIdentifyNeverPanics(t *testing.T) {
	for _, line := range []string{
		"npx -p a b", "npm exec -- x", "uvx --from a b", "uv tool run x", "uv run -m x", "pipx run --spec a b", "bun x y",
		"docker run -e A img", "python -m x", "node -r a b", "deno run x", "go run x@y", "env A=1 cmd /c npx x", "mcpx connect",
	} {
		argv := strings.Fields(line)
		for n := 1; n <= len(argv); n++ {
			if p, ok := IdentifyCommand(argv[0], argv[1:n]); ok && p.Kind == "" {
				t.Errorf("%v has no kind", argv[:n])
			}
		}
	}
	if p, _ := IdentifyCommand("", nil); p.Kind != PackageBinary {
		t.Errorf("an empty command has kind %q", p.Kind)
	}
}

func TestIdentifyURL(t *testing.T) {
	for raw, want := range map[string]string{
		"HTTPS://Example.COM:443/Mcp/":    "https://example.com/Mcp",
		"http://localhost:30000/a/":       "http://127.0.0.1:30000/a",
		"http://[::1]:80/":                "http://127.0.0.1",
		"http://127.0.0.1:80/x":           "http://127.0.0.1/x",
		"http://[fe80::1]:9/x":            "http://[fe80::1]:9/x",
		"https://h/x?b=2&a=1":             "https://h/x?a=1&b=2",
		"https://u:hunter2@h/x#frag":      "https://h/x",
		"https://h/x?api_key=hunter2&a=1": "https://h/x?a=1&api_key=redacted",
		"::not a url":                     "::not a url",
	} {
		if got := IdentifyURL(raw); got.Name != want || got.Kind != PackageURL {
			t.Errorf("IdentifyURL(%q) = %+v, want %q", raw, got, want)
		}
	}
}

func TestPinned(t *testing.T) {
	for _, tc := range []struct {
		p    Package
		want bool
	}{
		{Package{Kind: PackageNPM, Version: "1.2.3"}, true},
		{Package{Kind: PackageNPM, Version: "^1.2.3"}, false},
		{Package{Kind: PackageNPM, Version: "latest"}, false},
		{Package{Kind: PackageNPM}, false},
		{Package{Kind: PackagePyPI, Version: ">=2"}, false},
		{Package{Kind: PackageOCI, Version: "1.0"}, false},
		{Package{Kind: PackageOCI, Version: "sha256:ab"}, true},
		{Package{Kind: PackageGo, Version: "v1.0.0"}, true},
		{Package{Kind: PackageGit, Version: "abc"}, true},
	} {
		if got := tc.p.Pinned(); got != tc.want {
			t.Errorf("%+v: pinned %t, want %t", tc.p, got, tc.want)
		}
	}
}

func TestAdvise(t *testing.T) {
	for _, tc := range []struct {
		line    string
		sharing Sharing
		want    Sharing // "" for no advice
	}{
		{"npx -y @upstash/context7-mcp", ShareSession, ShareGlobal},
		{"npx -y @upstash/context7-mcp@1.0.0", ShareGlobal, ""},
		{"uvx mcp_server_fetch", ShareAgent, ShareGlobal},
		{"npx @modelcontextprotocol/server-github", ShareSession, ShareAccount},
		{"npx @modelcontextprotocol/server-github", ShareAccount, ""},
		{"npx @modelcontextprotocol/server-filesystem /home", ShareGlobal, ShareWorkspace},
		{"npx @modelcontextprotocol/server-filesystem /home", ShareSession, ""},
		{"npx @playwright/mcp", ShareGlobal, ShareSession},
		{"npx @modelcontextprotocol/server-sequential-thinking", ShareGlobal, ShareSession},
		{"npx unknown", ShareGlobal, ""},
		{"npx --odd @playwright/mcp", ShareGlobal, ""}, // the package may be misread
	} {
		argv := strings.Fields(tc.line)
		s := Server{Name: "x", Sharing: tc.sharing, Stdio: &Stdio{Command: argv[0], Args: argv[1:]}}
		a, ok := Advise(s)
		if a.Sharing != tc.want || ok != (tc.want != "") {
			t.Errorf("%s with %s: %+v, want %q", tc.line, tc.sharing, a, tc.want)
		}
		if ok && !strings.Contains(a.Text, "mcpx server edit x --sharing "+string(tc.want)) {
			t.Errorf("%s: the text %q does not say what to do", tc.line, a.Text)
		}
	}
}
