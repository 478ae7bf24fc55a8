package cli

import (
	"slices"
	"testing"

	"mcpx/internal/gate"
)

func TestCleanup(t *testing.T) {
	got := cleanup([]gate.Footprint{
		{Kind: "files", Found: gate.Known([]string{"/home/ada/old hub's files"})},
		{Kind: "programs", Found: gate.Known([]string{"/usr/bin/old-hub", "/home/ada/bin/old-hub"})},
		{Kind: "connections", Found: gate.Known([]string{"port 9000: 2"})},
		{Kind: "units", Found: gate.Known([]string{"/home/ada/.config/systemd/user/old-hub.service", "/etc/systemd/system/old-hub.service", "/Users/ada/Library/LaunchAgents/old.plist"})},
		{Kind: "processes", Found: gate.Missing[[]string]("not on this system")},
		{Kind: "processes", Found: gate.Known([]string{"pid 12 /usr/bin/old-hub"})},
		{Kind: "entries", Found: gate.Known([]string{"codex:github"})},
	})
	want := []cleanupStep{
		{"github of codex leads to it", "mcpx audit run --agent codex"},
		{"it starts by itself", "systemctl --user disable --now old-hub.service && rm /home/ada/.config/systemd/user/old-hub.service"},
		{"it starts by itself", "sudo systemctl disable --now old-hub.service && sudo rm /etc/systemd/system/old-hub.service"},
		{"it starts by itself", "launchctl unload /Users/ada/Library/LaunchAgents/old.plist && rm /Users/ada/Library/LaunchAgents/old.plist"},
		{"/usr/bin/old-hub runs", "kill 12"},
		{"who is there ends by itself, or is ended by you", "ss -tap '( sport = :9000 or dport = :9000 )'"},
		{"unless a package manager has installed it", "rm /usr/bin/old-hub"},
		{"unless a package manager has installed it", "rm /home/ada/bin/old-hub"},
		{"look first what is worth keeping", `rm -r '/home/ada/old hub'\''s files'`},
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
