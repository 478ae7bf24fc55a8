//go:build linux || darwin

package work

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mcpx/internal/fault"
	"mcpx/internal/operation"
	"mcpx/internal/session"
)

// registered is what register answers.
type registered struct {
	ID           string `json:"artifact_id"`
	SHA256, Name string
	Bytes        int
}

func (s *shop) register(t *testing.T, id, path string) registered {
	t.Helper()
	return read[registered](t, s.do(t, "artifact", `"action":"register","path":%q,"operation_id":%q`, path, id))
}

type artifactPiece struct {
	Text, Base64 string
	Next         int `json:"next_offset"`
	EOF          bool
	SHA256       string
	Changed      *bool `json:"source_changed"`
}

// readAll reads an artifact window by window, in windows of at most so many bytes.
func (s *shop) readAll(t *testing.T, a registered, limit int) (all []byte, changed *bool) {
	t.Helper()
	for offset, end := 0, false; !end; {
		w := read[artifactPiece](t, s.do(t, "artifact", `"action":"read","artifact_id":%q,"offset":%d,"limit":%d`, a.ID, offset, limit))
		raw, err := base64.StdEncoding.DecodeString(w.Base64)
		if err != nil || w.SHA256 != a.SHA256 {
			t.Fatalf("%v, hash %s, want %s", err, w.SHA256, a.SHA256)
		}
		all = append(append(all, w.Text...), raw...)
		offset, end, changed = w.Next, w.EOF, w.Changed
	}
	return all, changed
}

// TestRT144Artifact: RT-144, for text and other bytes, over the bounds of parts.
func TestRT144Artifact(t *testing.T) {
	s := newShop(t)
	noise := make([]byte, artifactPart+5000)
	for i, r := 0, rand.NewChaCha8([32]byte{7}); i < len(noise); i += 8 {
		v := r.Uint64()
		for j := range min(8, len(noise)-i) {
			noise[i+j] = byte(v >> (8 * j))
		}
	}
	for name, data := range map[string][]byte{
		"text": []byte(strings.Repeat("üäö line\n", 4000)), "noise": noise, "empty": {}, "whole part": bytes.Repeat([]byte{0xff}, artifactPart),
	} {
		s.save(t, "out", string(data))
		a := s.register(t, "reg-"+strings.ReplaceAll(name, " ", "-"), "out")
		if a.SHA256 != digest(data) || a.Bytes != len(data) || a.Name != "out" {
			t.Errorf("%s: registered %+v", name, a)
		}
		limit := windowMost
		if name == "text" {
			limit = 1001 // in the middle of characters
		}
		if _, changed := s.readAll(t, a, limit); changed == nil || *changed {
			t.Errorf("%s: source_changed is %v before it changed", name, changed)
		}
		s.save(t, "out", "something else")
		got, changed := s.readAll(t, a, limit)
		if !bytes.Equal(got, data) || changed == nil || !*changed {
			t.Errorf("%s: read %d bytes of %d, source_changed %v", name, len(got), len(data), changed)
		}
	}
	gone := s.register(t, "reg-gone-1", "out")
	if err := os.Remove(filepath.Join(s.root, "out")); err != nil {
		t.Fatal(err)
	}
	if got, changed := s.readAll(t, gone, 100); string(got) != "something else" || changed == nil || !*changed {
		t.Errorf("of a file that is gone: %q, source_changed %v", got, changed)
	}
}

func TestArtifactsOfASession(t *testing.T) {
	s := newShop(t)
	first := s.register(t, "reg-00001", "README.md")
	if again := s.do(t, "artifact", `"action":"register","path":"README.md","operation_id":"reg-00001"`); !again.Operation.Replayed || read[registered](t, again) != first {
		t.Errorf("the same call again: %+v", again)
	}
	second := s.register(t, "reg-00002", "notes.txt")
	type listed struct {
		Artifacts []registered
		Next      string `json:"next_cursor"`
	}
	if got := read[listed](t, s.do(t, "artifact", `"action":"list"`)); len(got.Artifacts) != 2 || got.Artifacts[0] != second || got.Next != "" {
		t.Errorf("list: %+v", got)
	}
	byProject := read[listed](t, s.call(t, "artifact", `{"action":"list","path":%q}`, s.root))
	if len(byProject.Artifacts) != 2 {
		t.Errorf("of the project: %+v", byProject)
	}
	for i := range session.MaxArtifactPage {
		s.register(t, fmt.Sprintf("reg-1%04d", i), "README.md")
	}
	page := read[listed](t, s.do(t, "artifact", `"action":"list"`))
	rest := read[listed](t, s.do(t, "artifact", `"action":"list","cursor":%q`, page.Next))
	if len(page.Artifacts) != session.MaxArtifactPage || len(rest.Artifacts) != 2 || rest.Artifacts[1] != first || rest.Next != "" {
		t.Errorf("pages of %d and %d", len(page.Artifacts), len(rest.Artifacts))
	}

	for what, call := range map[string]string{
		"a secret":        `"action":"register","path":".env","operation_id":"reg-20001"`,
		"another name":    `"action":"register","path":"link-out/passwd","operation_id":"reg-20002"`,
		"a directory":     `"action":"register","path":"src","operation_id":"reg-20003"`,
		"nothing":         `"action":"register","path":"missing","operation_id":"reg-20004"`,
		"another kind":    `"action":"register","path":"README.md","kind":"song","operation_id":"reg-20005"`,
		"no media":        `"action":"register","path":"README.md","media":"text\n","operation_id":"reg-20006"`,
		"a long name":     `"action":"register","path":"README.md","name":"` + strings.Repeat("x", 121) + `","operation_id":"reg-20007"`,
		"no path":         `"action":"register","operation_id":"reg-20008"`,
		"another action":  `"action":"forget"`,
		"no such one":     `"action":"read","artifact_id":"art_1"`,
		"none named":      `"action":"read"`,
		"too much for it": `"action":"register","path":"huge","operation_id":"reg-20009"`,
	} {
		if what == "too much for it" {
			s.save(t, "huge", "")
			if err := os.Truncate(filepath.Join(s.root, "huge"), session.MaxArtifact+1); err != nil {
				t.Fatal(err)
			}
		}
		want := map[string]operation.Code{
			"a secret": "FILE_DENIED", "nothing": operation.NotFound, "no such one": operation.NotFound, "too much for it": operation.LimitExceeded, "a long name": operation.LimitExceeded,
		}[what]
		if a := s.do(t, "artifact", "%s", call); a.OK || want != "" && a.Refusal.Code != want {
			t.Errorf("%s: %+v %v", what, a, a.Refusal)
		}
	}
	if got := read[listed](t, s.do(t, "artifact", `"action":"list"`)); got.Artifacts[0] != page.Artifacts[0] {
		t.Errorf("a refusal registered %+v", got.Artifacts[0])
	}

	eve := fmt.Sprintf(`{"action":"read","artifact_id":%q}`, first.ID)
	refused(t, s.as(t, "eve", "artifact", "%s", eve), operation.NotFound, fault.AfterFix)
	refused(t, s.as(t, "eve", "artifact", `{"action":"register","path":%q,"operation_id":"reg-00001"}`, filepath.Join(s.root, "README.md")), operation.ProjectRequired, fault.AfterFix)
}

// TestArtifactIsEvidence: RT-101, the kind artifact.
func TestArtifactIsEvidence(t *testing.T) {
	s := newShop(t)
	a := s.register(t, "reg-00001", "README.md")
	s.do(t, "plan", `"action":"create","operation_id":"plan-0001","summary":"ship","tasks":[{"key":"a","title":"A"}]`)
	s.do(t, "plan", `"action":"update","operation_id":"plan-0002","task":"a","state":"in_progress"`)
	wrong := s.do(t, "plan", `"action":"update","operation_id":"plan-0003","task":"a","state":"completed","evidence":[{"kind":"artifact","ref":"art_1"}]`)
	refused(t, wrong, session.EvidenceInvalid, fault.AfterFix)
	if right := s.do(t, "plan", `"action":"update","operation_id":"plan-0003","task":"a","state":"completed","evidence":[{"kind":"artifact","ref":%q}]`, a.ID); !right.OK {
		t.Errorf("%+v %v", right, right.Refusal)
	}
}
