//go:build unix

package process

import (
	"context"
	"os"
	"path/filepath"
	"testing"
)

func TestForeground(t *testing.T) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	out, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	shell := func(script string) Command {
		return Command{File: "/bin/sh", Argv: []string{"sh", "-c", script}, Dir: t.TempDir(), Env: os.Environ()}
	}
	status, err := Foreground(t.Context(), shell("echo said; echo more >&2; exit 3"), null, out)
	if err != nil || status.Code != 3 {
		t.Errorf("%v, %v; want code 3", status, err)
	}
	if said, err := os.ReadFile(out.Name()); err != nil || len(said) < len("said\nmore\n") || string(said[:10]) != "said\nmore\n" {
		t.Errorf("%q, %v", said, err)
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if _, err := Foreground(ctx, shell("sleep 600"), null, out); err == nil {
		t.Error("an interrupted command is no error")
	}
	if _, err := Foreground(t.Context(), Command{File: "/nowhere/x", Argv: []string{"x"}, Dir: "/"}, null, out); err == nil {
		t.Error("a program that does not exist is no error")
	}
}
