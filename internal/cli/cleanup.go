package cli

import (
	"path"
	"strings"

	"mcpx/internal/api"
	"mcpx/internal/gate"
)

// cleanupStep is what a person does to remove a trace of another hub. mcpx runs none of them: it has installed nothing of it.
type cleanupStep struct {
	Why     string `json:"why"`
	Command string `json:"command"`
}

// cleanup lists the steps that remove what is left, in the order in which they are done: first nobody leads there any
// more, then nothing starts it again, then it ends, then its files go.
func cleanup(left []gate.Footprint) []cleanupStep {
	steps := []cleanupStep{}
	for _, kind := range []struct {
		name string
		step func(found string) cleanupStep
	}{
		{"entries", func(found string) cleanupStep {
			agent, entry, _ := strings.Cut(found, ":")
			return cleanupStep{entry + " of " + agent + " leads to it", "mcpx audit run --agent " + agent}
		}},
		{"units", func(found string) cleanupStep { return cleanupStep{"it starts by itself", withoutUnit(found)} }},
		{"processes", func(found string) cleanupStep {
			pid, program, _ := strings.Cut(strings.TrimPrefix(found, "pid "), " ")
			return cleanupStep{program + " runs", "kill " + pid}
		}},
		{"connections", func(found string) cleanupStep {
			port, _, _ := strings.Cut(strings.TrimPrefix(found, "port "), ":")
			return cleanupStep{"who is there ends by itself, or is ended by you", "ss -tap '( sport = :" + port + " or dport = :" + port + " )'"}
		}},
		{"programs", func(found string) cleanupStep {
			return cleanupStep{"unless a package manager has installed it", "rm " + api.ShellWord(found)}
		}},
		{"files", func(found string) cleanupStep {
			return cleanupStep{"look first what is worth keeping", "rm -r " + api.ShellWord(found)}
		}},
	} {
		for _, l := range left {
			if l.Kind != kind.name {
				continue
			}
			for _, found := range l.Found.Value {
				steps = append(steps, kind.step(found))
			}
		}
	}
	return steps
}

// withoutUnit ends a unit and removes its description.
func withoutUnit(file string) string {
	switch {
	case strings.Contains(file, "/LaunchAgents/"):
		return "launchctl unload " + api.ShellWord(file) + " && rm " + api.ShellWord(file)
	case strings.HasPrefix(file, "/etc/"):
		return "sudo systemctl disable --now " + api.ShellWord(path.Base(file)) + " && sudo rm " + api.ShellWord(file)
	}
	return "systemctl --user disable --now " + api.ShellWord(path.Base(file)) + " && rm " + api.ShellWord(file)
}
