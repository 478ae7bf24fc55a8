package converge

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"

	"mcpx/internal/fault"
)

func TestInstallService(t *testing.T) {
	s := Service{Manager: Systemd, Program: "/home/ada/.local/bin/mcpx", Home: "/home/ada", Log: "/home/ada/.local/state/mcpx/log/launchd.log"}
	for name, c := range map[string]struct {
		change func(*Service)
		path   string
		lines  []string
	}{
		"systemd": {func(*Service) {}, "/home/ada/.config/systemd/user/mcpx.service", []string{
			"ExecStart=/home/ada/.local/bin/mcpx serve", "KillMode=process", "RestartPreventExitStatus=75", "Type=notify", "EnvironmentFile=-/home/ada/.config/mcpx/service.env",
		}},
		"places of its own": {
			func(s *Service) { s.Config, s.State, s.Program = "/c", "/s p%t", `/opt/a b"$x/mcpx` }, "/c/systemd/user/mcpx.service",
			[]string{`ExecStart="/opt/a b\"$$x/mcpx" serve`, `Environment="MCPX_HOME=/s p%%t"`, "EnvironmentFile=-/c/mcpx/service.env"},
		},
		"launchd": {func(s *Service) { s.Manager, s.State = Launchd, "/a&b" }, "/home/ada/Library/LaunchAgents/dev.mcpx.daemon.plist", []string{
			"\t\t<string>/home/ada/.local/bin/mcpx</string>", "\t\t<string>/a&amp;b</string>", "\t<key>AbandonProcessGroup</key>",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s := s
			c.change(&s)
			p, err := InstallService(s)
			if err != nil {
				t.Fatal(err)
			}
			if p.Files[0].Path != c.path {
				t.Errorf("the file is %s, want %s", p.Files[0].Path, c.path)
			}
			content := p.Files[0].Steps[0].Content
			for _, line := range c.lines {
				if !strings.Contains("\n"+content, "\n"+line+"\n") {
					t.Errorf("no line %q in\n%s", line, content)
				}
			}
			if s.Manager == Launchd {
				wellFormed(t, content)
			}
			if commands := strings.Join(p.Effects, "\n"); !strings.Contains(commands, strings.Join(s.Start()[0], " ")) {
				t.Errorf("nobody is told how to start it: %s", commands)
			}
		})
	}
}

func wellFormed(t *testing.T, content string) {
	t.Helper()
	for d := xml.NewDecoder(strings.NewReader(content)); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatalf("no XML: %v\n%s", err, content)
		}
	}
}

func TestInstallServiceRefuses(t *testing.T) {
	for _, program := range []string{"/tmp/x/mcpx", "/home/ada/.cache/go-build/1/mcpx", "/x/go-build123/b001/exe/mcpx", "/home/ada/.cache/mcpx", "/a\nb/mcpx"} {
		if _, err := InstallService(Service{Manager: Systemd, Program: program, Home: "/home/ada"}); fault.From(err) == nil || fault.From(err).Code != "service-program" {
			t.Errorf("%q: %v", program, err)
		}
	}
}
