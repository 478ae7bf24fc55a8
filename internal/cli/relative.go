package cli

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	"mcpx/internal/api"
	"mcpx/internal/catalog"
)

// relativeArgument is the first argument that means a path below the current directory: the daemon starts servers
// somewhere else, where it would mean another one. "." and what begins with ./ or ../ are such paths; other words count
// only when they look like a file and there is one: python3 server.py.
func relativeArgument(argv []string) (arg string, ok bool) {
	for _, word := range argv[1:] {
		path := word
		if flag, value, ok := strings.Cut(word, "="); ok && strings.HasPrefix(flag, "-") {
			path = value
		}
		switch {
		case path == "." || path == "..", strings.HasPrefix(path, "./"), strings.HasPrefix(path, "../"):
			return word, true
		case path == "" || path[0] == '-' || filepath.IsAbs(path), !strings.ContainsAny(path, "./"):
			continue
		}
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			return word, true
		}
	}
	return "", false
}

// here is the directory for a command whose argument is relative to the current one, "" when the command has none or
// somebody else decides: a flag, or the project of each agent.
func here(a Args, argv []string, sharing catalog.Sharing) (dir, arg string) {
	if a.Given("cwd") || a.Given("cwd-policy") || sharing == catalog.ShareWorkspace || len(argv) == 0 {
		return "", ""
	}
	arg, ok := relativeArgument(argv)
	if !ok {
		return "", ""
	}
	dir, err := os.Getwd()
	if err != nil {
		return "", "" // the directory was removed
	}
	return dir, arg
}

// moveHere lets a new command of an entry start in the current directory when it has a relative argument. An entry that
// has a directory, or takes that of the agent, keeps it.
func moveHere(ctx context.Context, service api.Service, a Args, in *api.EditServer) (arg string, err error) {
	sharing := catalog.Sharing(a.String("sharing"))
	dir, arg := here(a, in.Command, sharing)
	if dir == "" {
		return "", nil
	}
	s, err := service.Server(ctx, api.ServerRef{Name: in.Name})
	if err != nil {
		return "", err
	}
	if s.Stdio != nil && (s.Stdio.Cwd != "" || s.Stdio.CwdPolicy != "") || sharing == "" && s.Sharing == catalog.ShareWorkspace {
		return "", nil
	}
	in.Cwd = &dir
	return arg, nil
}
