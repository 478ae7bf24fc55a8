package wire

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestConsumerOfABuild: DW-8 with the real binary. Of a producer that has made two builds a consumer of the first one sees the bytes of
// that; the verdict is about it alone, and a warning says that there is a newer one.
func TestConsumerOfABuild(t *testing.T) {
	m := newMaker(t)
	if err := os.WriteFile(filepath.Join(m.bin, "consume"), []byte("#!/bin/sh\nsha256sum out/a\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	first := m.produces("", func() {})
	for _, name := range []string{"made", "go"} {
		if err := os.Remove(m.file(name)); err != nil {
			t.Fatal(err)
		}
	}
	second := m.produces("", func() {
		if err := os.WriteFile(m.file("out/a"), []byte("other bytes\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	})
	if first.State != "ready" || second.State != "ready" || m.sum(first) == m.sum(second) {
		t.Fatalf("two builds: %+v, %+v", first, second)
	}
	a := m.call("start_verified_workspace_consumer", fmt.Sprintf(`{"build_id":%q,"argv":[%q],"remote_session_id":%q,"operation_id":"consume-001"}`, first.Build, filepath.Join(m.bin, "consume"), m.session))
	var started struct {
		Job string `json:"job_id"`
	}
	var more struct {
		Warnings []string `json:"warnings"`
	}
	if !a.OK || json.Unmarshal(a.Data, &started) != nil || json.Unmarshal(a.raw, &more) != nil {
		t.Fatalf("%s", a.raw)
	}
	if len(more.Warnings) != 1 || !strings.HasPrefix(more.Warnings[0], "BUILD_SUPERSEDED") || !strings.Contains(more.Warnings[0], second.Build) {
		t.Errorf("it is warned of %q", more.Warnings)
	}
	after := m.becomes(first.Build, func(c candidate) bool { return len(c.Audits) == 1 && c.Audits[0].Verdict != "" })
	if after.Audits[0].Verdict != "pass" || after.Audits[0].State != "post_verified" {
		t.Errorf("the audit is %+v", after.Audits[0])
	}
	var saw struct {
		Stdout struct {
			Text string `json:"text"`
		} `json:"stdout"`
	}
	m.read("command_status", fmt.Sprintf(`{"job_id":%q}`, started.Job), &saw)
	if sum := m.sum(first); !strings.HasPrefix(saw.Stdout.Text, fmt.Sprintf("%x ", sum)) {
		t.Errorf("it saw %q, the build has %x", saw.Stdout.Text, sum)
	}
	if other := m.becomes(second.Build, func(c candidate) bool { return c.State == "ready" }); len(other.Audits) != 0 {
		t.Errorf("the other build has the verdicts %+v", other.Audits)
	}
}
