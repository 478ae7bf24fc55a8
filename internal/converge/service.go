package converge

import (
	"encoding/xml"
	"path"
	"strings"

	"mcpx/internal/fault"
)

// Manager is what starts programs for a user.
type Manager string

// The managers of services.
const (
	Systemd Manager = "systemd"
	Launchd Manager = "launchd"
)

// Label is the name of the service at launchd; at systemd it is mcpx.
const Label = "dev.mcpx.daemon"

// Service is the daemon as a service of its user, governance.md section 12.
type Service struct {
	Manager Manager
	Program string // of mcpx, absolute
	Home    string // of the user, absolute
	Config  string // XDG_CONFIG_HOME, absolute; "" below the home
	State   string // MCPX_HOME, absolute; "" the usual places
	Log     string // file for what launchd does not keep, absolute
}

// Path is where the manager looks for the description of the service.
func (s Service) Path() string {
	if s.Manager == Launchd {
		return path.Join(s.Home, "Library/LaunchAgents", Label+".plist")
	}
	return path.Join(s.config(), "systemd/user/mcpx.service")
}

func (s Service) config() string {
	if s.Config != "" {
		return s.Config
	}
	return path.Join(s.Home, ".config")
}

// Start are the commands that make the manager start the service now and at each login.
func (s Service) Start() [][]string {
	if s.Manager == Launchd {
		return [][]string{{"launchctl", "load", "-w", s.Path()}}
	}
	return [][]string{{"systemctl", "--user", "daemon-reload"}, {"systemctl", "--user", "enable", "--now", "mcpx.service"}}
}

// Stop are the commands that make the manager forget the service.
func (s Service) Stop() [][]string {
	if s.Manager == Launchd {
		return [][]string{{"launchctl", "unload", "-w", s.Path()}}
	}
	return [][]string{{"systemctl", "--user", "disable", "--now", "mcpx.service"}}
}

// transient are places whose files are gone soon.
var transient = []string{"/tmp/", "/var/tmp/", "/private/tmp/", "/var/folders/", "/private/var/folders/", "/dev/shm/"}

// InstallService proposes the file that describes the service. A program that will not be there tomorrow is refused.
func InstallService(s Service) (Proposal, error) {
	temporary := strings.Contains(s.Program, "/go-build") || strings.HasPrefix(s.Program, path.Join(s.Home, ".cache")+"/")
	for _, dir := range transient {
		temporary = temporary || strings.HasPrefix(s.Program, dir)
	}
	switch {
	case temporary:
		return Proposal{}, fault.New(fault.Invalid, "service-program").Saying("%s lies in a directory for temporary files, so a service would not find it later", s.Program).
			Hinting("put mcpx where it stays, for example ~/.local/bin, and call it from there")
	case strings.ContainsAny(s.Program+s.State, "\n\r\x00"):
		return Proposal{}, fault.New(fault.Invalid, "service-program").Saying("the path of mcpx or of its state holds a line break").Hinting("move it")
	}
	content := s.unit()
	if s.Manager == Launchd {
		content = s.plist()
	}
	p := Proposal{
		Kind: PlanService, Summary: "the daemon becomes a service of this user (" + string(s.Manager) + ")", Reasons: []string{reasonAskedFor},
		Files:   []Drafting{{Path: s.Path(), Steps: []Step{{Op: StepFile, Content: content}}}},
		Effects: []string{"the file alone starts nothing: `mcpx daemon install-user-service --enable`, or by hand"},
	}
	for _, command := range s.Start() {
		p.Effects = append(p.Effects, strings.Join(command, " "))
	}
	if s.Manager == Systemd {
		p.Effects = append(p.Effects, "systemd ends the services of a user with the last logout, unless `loginctl enable-linger` says otherwise",
			"a service has few variables: what `env:` references name belongs into "+path.Join(s.config(), "mcpx/service.env")+", mode 0600")
	}
	p.finish()
	return p, nil
}

// unit is the description for systemd. KillMode=process: the default ends the whole control group, that is every server
// at each restart. Nothing protects or hides directories: servers are the user's programs and behave as in a shell.
func (s Service) unit() string {
	var b strings.Builder
	b.WriteString(`# Written by mcpx; ` + "`mcpx daemon install-user-service --remove`" + ` takes it back.
[Unit]
Description=mcpx, local MCP control plane
StartLimitIntervalSec=60
StartLimitBurst=5

[Service]
Type=notify
NotifyAccess=all
ExecStart=` + unitWord(s.Program) + ` serve
ExecReload=/bin/kill -HUP $MAINPID
Restart=on-failure
RestartSec=2
# Another daemon runs already: to start again would not help.
RestartPreventExitStatus=75
# The servers go on without the daemon; ` + "`mcpx daemon stop --children`" + ` ends them too.
KillMode=process
TimeoutStopSec=40
UMask=0077
EnvironmentFile=-` + unitPath(path.Join(s.config(), "mcpx/service.env")) + "\n")
	if s.State != "" {
		b.WriteString("Environment=" + unitWord("MCPX_HOME="+s.State) + "\n")
	}
	b.WriteString("\n[Install]\nWantedBy=default.target\n")
	return b.String()
}

// unitWord quotes one word of a unit: systemd.service(5), "Command lines", and systemd.unit(5), "Specifiers".
func unitWord(s string) string {
	s = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "%", "%%", "$", "$$").Replace(s)
	if strings.ContainsAny(s, " \t'\"\\;") {
		return `"` + s + `"`
	}
	return s
}

// unitPath escapes a path that is the rest of its line.
func unitPath(s string) string { return strings.ReplaceAll(s, "%", "%%") }

// plist is the description for launchd. AbandonProcessGroup is what KillMode=process is at systemd.
func (s Service) plist() string {
	variables := ""
	if s.State != "" {
		variables = "\t<key>EnvironmentVariables</key>\n\t<dict>\n\t\t<key>MCPX_HOME</key>\n\t\t<string>" + xmlText(s.State) + "</string>\n\t</dict>\n"
	}
	return `<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<plist version="1.0">
<dict>
	<key>Label</key>
	<string>` + Label + `</string>
	<key>ProgramArguments</key>
	<array>
		<string>` + xmlText(s.Program) + `</string>
		<string>serve</string>
	</array>
` + variables + `	<key>RunAtLoad</key>
	<true/>
	<key>KeepAlive</key>
	<dict>
		<key>SuccessfulExit</key>
		<false/>
	</dict>
	<key>AbandonProcessGroup</key>
	<true/>
	<key>ProcessType</key>
	<string>Background</string>
	<key>StandardErrorPath</key>
	<string>` + xmlText(s.Log) + `</string>
</dict>
</plist>
`
}

func xmlText(s string) string {
	var b strings.Builder
	if err := xml.EscapeText(&b, []byte(s)); err != nil {
		panic("converge: a builder has no errors: " + err.Error())
	}
	return b.String()
}
