package shim

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// oracle is the journal as supervisor.md section 6 tells it, in lists and loops. It has no index and no counters.
type oracle struct {
	bounds
	calls    []oracleCall
	kept     []oracleFrame // answers, questions and notes, in order of arrival
	finished []uint64
	refused  []string
}

type oracleCall struct {
	number uint64
	id     string
	state  string
}

type oracleFrame struct {
	text      string
	call      uint64 // of an answer
	question  string // id of one
	delivered bool
}

func (o *oracle) bytes() (sum int) {
	for _, f := range o.kept {
		if f.call != 0 || f.question != "" {
			sum += len(f.text)
		}
	}
	return sum
}

func (o *oracle) call(n uint64) int {
	return slices.IndexFunc(o.calls, func(c oracleCall) bool { return c.number == n })
}

func (o *oracle) drop(match func(oracleFrame) bool) bool {
	i := slices.IndexFunc(o.kept, match)
	if i < 0 {
		return false
	}
	f := o.kept[i]
	o.kept = slices.Delete(o.kept, i, i+1)
	if at := o.call(f.call); f.call != 0 && at >= 0 {
		o.calls[at].state = "lost"
	}
	return true
}

func (o *oracle) fit() {
	for o.bytes() > o.bounds.bytes {
		if o.drop(func(f oracleFrame) bool { return f.delivered }) {
			continue
		}
		i := slices.IndexFunc(o.kept, func(f oracleFrame) bool { return f.call != 0 || f.question != "" })
		if q := o.kept[i].question; q != "" {
			o.refused = append(o.refused, q)
		}
		at := o.kept[i]
		o.drop(func(f oracleFrame) bool { return f == at })
	}
}

func (o *oracle) ask(n uint64, id string) {
	if len(o.calls) >= o.entries {
		o.done(o.calls[slices.IndexFunc(o.calls, func(c oracleCall) bool { return c.state != "running" })].number)
	}
	o.calls = append(o.calls, oracleCall{n, id, "running"})
}

func (o *oracle) done(n uint64) {
	at := o.call(n)
	if at < 0 {
		return
	}
	o.drop(func(f oracleFrame) bool { return f.call == n })
	o.calls = slices.Delete(o.calls, at, at+1)
	if o.finished = append(o.finished, n); len(o.finished) > o.entries {
		o.finished = o.finished[1:]
	}
}

func (o *oracle) answer(id, text string, given bool) {
	at := slices.IndexFunc(o.calls, func(c oracleCall) bool { return c.id == id && c.state == "running" })
	switch {
	case at < 0:
		if !given {
			o.kept = append(o.kept, oracleFrame{text: text})
		}
	case len(text) > o.bounds.bytes:
		o.calls[at].state = "lost"
	default:
		o.calls[at].state = "answered"
		o.kept = append(o.kept, oracleFrame{text: text, call: o.calls[at].number, delivered: given})
		o.fit()
	}
}

func (o *oracle) question(id, text string) {
	isQuestion := func(f oracleFrame) bool { return f.question != "" }
	asked := 0
	for _, f := range o.kept {
		if isQuestion(f) {
			asked++
		}
	}
	if asked >= o.entries {
		i := slices.IndexFunc(o.kept, isQuestion)
		o.refused = append(o.refused, o.kept[i].question)
		o.kept = slices.Delete(o.kept, i, i+1)
	}
	o.kept = append(o.kept, oracleFrame{text: text, question: id})
	o.fit()
}

// attach is what a new daemon is told.
func (o *oracle) attach() (frames []string) {
	var rest []oracleFrame
	for _, f := range o.kept {
		frames = append(frames, f.text)
		if f.call != 0 || f.question != "" {
			f.delivered = f.call != 0
			rest = append(rest, f)
		}
	}
	o.kept = rest
	return frames
}

// TestJournalModel compares the journal with the oracle after every step of long random lives.
func TestJournalModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		b := bounds{entries: 5, bytes: 200}
		j, o := newJournal(b), &oracle{bounds: b}
		var next uint64
		ids := rapid.SampledFrom([]string{"1", "2", `"a"`, `"b"`})
		given := rapid.Bool()
		pad := func() string { return strings.Repeat("x", rapid.IntRange(0, 250).Draw(t, "size")) }
		t.Repeat(map[string]func(*rapid.T){
			"ask": func(t *rapid.T) {
				if !j.room(1) {
					t.Skip("the supervisor does not read now")
				}
				next++
				id := ids.Draw(t, "id")
				j.askFor(0, next, id, "m")
				o.ask(next, id)
			},
			"answer": func(t *rapid.T) {
				id, given := ids.Draw(t, "id"), given.Draw(t, "given")
				text := fmt.Sprintf(`{"id":%s,"result":"%d%s"}`, id, next, pad())
				j.line(0, []byte(text), given, true)
				o.answer(id, text, given)
			},
			"question": func(t *rapid.T) {
				next++ // ids of a child are its own; that they are unique keeps the oracle simple
				id := fmt.Sprintf(`"q%d"`, next)
				text := fmt.Sprintf(`{"id":%s,"method":"ask","params":"%s"}`, id, pad())
				if len(text) > b.bytes {
					t.Skip("refused in another way")
				}
				j.line(0, []byte(text), given.Draw(t, "given"), true)
				o.question(id, text)
			},
			"reply": func(t *rapid.T) {
				if next == 0 {
					t.Skip("nothing was asked")
				}
				id := fmt.Sprintf(`"q%d"`, rapid.Uint64Range(1, next).Draw(t, "number"))
				j.told([]byte(id), nil)
				o.drop(func(f oracleFrame) bool { return f.question == id })
			},
			"note": func(t *rapid.T) {
				text := fmt.Sprintf(`{"method":"n%d"}`, next)
				j.line(0, []byte(text), false, true)
				o.kept = append(o.kept, oracleFrame{text: text})
			},
			"done": func(t *rapid.T) {
				n := rapid.Uint64Range(0, next).Draw(t, "number")
				j.done(time.Second, n)
				o.done(n)
			},
			"attach": func(t *rapid.T) {
				if diff := cmp.Diff(o.attach(), texts(j.takeFrames())); diff != "" {
					t.Fatal(diff)
				}
			},
			"": func(t *rapid.T) {
				var states []string
				open := 0
				for _, c := range o.calls {
					states = append(states, fmt.Sprintf("%d:%s", c.number, c.state))
					if c.state == "running" {
						open++
					}
				}
				var finished []uint64
				for _, c := range j.finished.calls(time.Second) {
					finished = append(finished, c.Number)
				}
				refused := texts(j.takeRefusals())
				if diff := cmp.Diff(o.refused, refused); diff != "" {
					t.Fatalf("refused: %s", diff)
				}
				o.refused = nil
				if got := j.states(); got != strings.Join(states, " ") || !slices.Equal(finished, o.finished) {
					t.Fatalf("%s, finished %v; the oracle has %v, %v", got, finished, states, o.finished)
				}
				if j.frames.bytes != o.bytes() || j.running != open || len(j.numbers) != len(o.calls) {
					t.Fatalf("%d bytes, %d open, %d numbers; the oracle has %d, %d", j.frames.bytes, j.running, len(j.numbers), o.bytes(), open)
				}
			},
		})
	})
}

// FuzzJournal gives it lines that no sane child writes: nothing is lost without being counted, and nothing panics.
func FuzzJournal(f *testing.F) {
	f.Add([]byte("{\"id\":1,\"result\":{}}\n{\"id\":1,\"method\":\"m\"}\n[{\"id\":2,\"error\":0}]\n{\"id\":1,\"id\":1}"), true)
	f.Fuzz(func(t *testing.T, b []byte, given bool) {
		j := newJournal(bounds{3, 100})
		j.askFor(0, 1, "1", "m")
		j.askFor(0, 2, `"a"`, "m")
		lines := strings.Split(string(b), "\n")
		for _, l := range lines {
			j.line(0, []byte(l), given, true)
			j.overlong([]byte(l))
			j.told([]byte(l), nil)
		}
		if !given && len(lines) == 1 && len(j.takeFrames())+int(j.refused)+int(j.ring.droppedFrames) == 0 {
			for _, c := range j.calls(0) {
				if c.State == "lost" {
					return
				}
			}
			if len(lines[0]) > 0 && !strings.HasPrefix(strings.TrimSpace(lines[0]), "[") {
				t.Fatalf("%q left no trace", lines[0])
			}
		}
	})
}
