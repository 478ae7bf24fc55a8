package certify

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"
)

// Scenarios names the set of steps. It rises when a step is added or asks for more.
const Scenarios = "1"

// Level says how much was seen of an agent behind mcpx.
type Level string

// The levels, the least first.
const (
	LevelNone      Level = "none"
	LevelParsed    Level = "parsed"    // its file is read as it reads it
	LevelConnected Level = "connected" // it reached the servers through mcpx
	LevelCalled    Level = "called"    // it called tools through mcpx
)

// Outcome is how a step ended.
type Outcome string

// The outcomes.
const (
	Passed Outcome = "passed"
	Failed Outcome = "failed"
	NotRun Outcome = "not-run" // an earlier step failed
	Absent Outcome = "absent"  // the agent has no command for it, or nothing is to be shown
)

// Step is one thing that was tried.
type Step struct {
	Name    string  `json:"name"`
	What    string  `json:"what"`
	Outcome Outcome `json:"outcome"`
	Note    string  `json:"note,omitempty"` // what was seen, or the error
}

// Hashes are of the file that the agent reads its servers from, SHA-256 in hex.
type Hashes struct {
	Path     string `json:"path"`            // below the scratch home, with ~
	Before   string `json:"before_apply"`    // as the agent wrote it
	Applied  string `json:"after_apply"`     // as mcpx wrote it
	Used     string `json:"after_runs"`      // after the runs through mcpx: differs when the agent writes it anew
	Restored string `json:"after_rollback"`  // Before, unless Used is not Applied
	Exact    *Exact `json:"exact,omitempty"` // of an agent that writes it anew: once more, without a run in between
}

// Exact is an apply and its rollback with no run of the agent in between.
type Exact struct {
	Before   string `json:"before_apply"`
	Applied  string `json:"after_apply"`
	Restored string `json:"after_rollback"`
}

// Certificate is the evidence of one run.
type Certificate struct {
	Agent      string    `json:"agent"`
	Program    string    `json:"program"`
	Version    string    `json:"version"`        // as the agent says it
	Digest     string    `json:"program_sha256"` // of the file that PATH leads to
	Client     string    `json:"client_info"`    // as it introduces itself to servers, through mcpx
	Adapter    string    `json:"adapter_version"`
	Mcpx       string    `json:"mcpx_version"`
	System     string    `json:"system"` // GOOS/GOARCH
	Scenarios  string    `json:"scenarios"`
	Level      Level     `json:"level"`
	Outcome    Outcome   `json:"outcome"`
	Date       time.Time `json:"date"`
	Config     Hashes    `json:"config"`
	Steps      []Step    `json:"steps"`
	Transcript string    `json:"transcript_sha256"` // of everything that was run, with its output
}

// JSON is the certificate as a file.
func (c Certificate) JSON() []byte {
	b, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		panic("certify: a certificate cannot be encoded: " + err.Error())
	}
	return append(b, '\n')
}

// Markdown is the certificate for people.
func (c Certificate) Markdown() string {
	var b strings.Builder
	p := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	p("# %s: %s", c.Agent, c.Outcome)
	p("")
	p("`%s` %s on %s, %s, level %s. mcpx %s, adapter %s, scenarios %s.", c.Program, c.Version, c.System, c.Date.Format(time.DateOnly), c.Level, c.Mcpx, c.Adapter, c.Scenarios)
	p("It introduces itself as %s. SHA-256 of the program: `%s`.", c.Client, c.Digest)
	p("")
	p("| step | outcome | what | seen |")
	p("|---|---|---|---|")
	for _, s := range c.Steps {
		p("| %s | %s | %s | %s |", s.Name, s.Outcome, s.What, cellText(s.Note))
	}
	p("")
	p("`%s` (SHA-256)", c.Config.Path)
	p("")
	p("| when | hash |")
	p("|---|---|")
	rows := [][2]string{
		{"before apply", c.Config.Before}, {"after apply", c.Config.Applied}, {"after the runs through mcpx", c.Config.Used}, {"after rollback", c.Config.Restored},
	}
	if e := c.Config.Exact; e != nil {
		rows = append(rows, [2]string{"again: before apply", e.Before}, [2]string{"again: after apply", e.Applied}, [2]string{"again: after rollback", e.Restored})
	}
	for _, r := range rows {
		p("| %s | `%s` |", r[0], r[1])
	}
	return b.String()
}

func cellText(text string) string {
	return strings.NewReplacer("\n", " ", "|", `\|`).Replace(text)
}

// transcript is what was run and what it said.
type transcript struct {
	mu   sync.Mutex
	text bounded
}

func (t *transcript) add(argv []string, out output) {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, _ = fmt.Fprintf(&t.text, "$ %s\n%s\n[%d]\n", strings.Join(argv, " "), out.text, out.code)
}

func (t *transcript) digest() string {
	sum := sha256.Sum256([]byte(t.text.String()))
	return hex.EncodeToString(sum[:])
}

// Restored says how the rollback left the file, in a word or two.
func (c Certificate) Restored() string {
	switch h := c.Config; {
	case h.Restored == "":
		return "not reached"
	case h.Restored == h.Before:
		return "bytes"
	case h.Exact != nil && h.Exact.Restored == h.Exact.Before:
		return "entries, bytes"
	default:
		return "entries"
	}
}
