package shim

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// ask registers a request as the supervisor does.
func (j *journal) askFor(now time.Duration, n uint64, id, method string) {
	line := fmt.Sprintf(`{"id":%s,"method":%q}`, id, method)
	j.ask(now, n, []byte(id), []byte(`"`+method+`"`), []byte("t"), []byte(line))
}

// states are the entries as "number:state", oldest first.
func (j *journal) states() string {
	var all []string
	for _, c := range j.calls(0) {
		all = append(all, fmt.Sprintf("%d:%s", c.Number, c.State))
	}
	return strings.Join(all, " ")
}

func texts(frames [][]byte) (all []string) {
	for _, f := range frames {
		all = append(all, string(f))
	}
	return all
}

func TestJournalMatchesAnswers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		ids   []string // of requests 1, 2, ...
		lines []string
		want  string
		ring  int
	}{
		{"one", []string{"1"}, []string{`{"id":1,"result":{}}`}, "1:answered", 0},
		{"error", []string{"1"}, []string{`{"id":1,"error":{}}`}, "1:answered", 0},
		{"none", []string{"1"}, nil, "1:running", 0},
		{"other id", []string{"1"}, []string{`{"id":2,"result":{}}`}, "1:running", 1},
		{"string is no number", []string{"1"}, []string{`{"id":"1","result":{}}`}, "1:running", 1},
		{"escaped", []string{`"aé"`}, []string{`{"id":"\u0061\u00e9","result":{}}`}, "1:answered", 0},
		{"asked with escapes", []string{`"\/\""`}, []string{`{"id":"/\u0022","result":{}}`}, "1:answered", 0},
		{"minus zero", []string{`0`}, []string{`{"id":-0,"result":{}}`}, "1:answered", 0},
		{"oldest first", []string{"7", "7", "7"}, []string{`{"id":7,"result":1}`, `{"id":7,"result":2}`}, "1:answered 2:answered 3:running", 0},
		{"answered twice", []string{"7"}, []string{`{"id":7,"result":1}`, `{"id":7,"result":2}`}, "1:answered", 1},
		{"id twice in a line", []string{"7"}, []string{`{"id":7,"id":7,"result":1}`}, "1:running", 1},
		{"not JSON", []string{"7"}, []string{`{"id":7,`}, "1:running", 1},
		{"notification", []string{"7"}, []string{`{"method":"n"}`}, "1:running", 1},
		{"batch", []string{"1", "2"}, []string{`[{"id":2,"result":1},{"method":"n"},{"id":1,"result":2}]`}, "1:answered 2:answered", 1},
	} {
		j := newJournal(bounds{maxEntries, maxKept})
		for i, id := range c.ids {
			j.askFor(0, uint64(i+1), id, "m")
		}
		for _, l := range c.lines {
			j.line(0, []byte(l), false, false)
		}
		if got := j.states(); got != c.want || j.ring.lines != c.ring {
			t.Errorf("%s: %s with %d lines in the ring, want %s with %d", c.name, got, j.ring.lines, c.want, c.ring)
		}
	}
}

// TestJournalKeepsTheOrder: answers, questions and notifications come back as they arrived, and only what was promised
// comes twice.
func TestJournalKeepsTheOrder(t *testing.T) {
	t.Parallel()
	j := newJournal(bounds{maxEntries, maxKept})
	j.askFor(0, 1, "1", "m")
	j.askFor(0, 2, "2", "m")
	all := []string{
		`{"method":"a"}`, `{"id":2,"result":1}`, `{"method":"b"}`, `{"id":"q","method":"ask"}`, `{"id":1,"result":1}`, `{"method":"c"}`,
	}
	for _, l := range all {
		j.line(0, []byte(l), false, false)
	}
	if diff := cmp.Diff(all, texts(j.takeFrames())); diff != "" {
		t.Error(diff)
	}
	j.told([]byte(`"q"`), nil)
	j.done(0, 2)
	if diff := cmp.Diff(all[4:5], texts(j.takeFrames())); diff != "" {
		t.Error(diff)
	}
	j.done(0, 1)
	j.done(0, 1)
	if j.takeFrames() != nil && len(j.takeFrames()) > 0 || j.frames.bytes != 0 || j.frames.delivered != 0 {
		t.Errorf("left: %d bytes, %d delivered", j.frames.bytes, j.frames.delivered)
	}
	if got := len(j.info(0).Finished); got != 2 {
		t.Errorf("%d finished", got)
	}
}

// answerOf is an answer of about n bytes.
func answerOf(id, n int) []byte {
	return fmt.Appendf(nil, `{"id":%d,"result":"%s"}`, id, strings.Repeat("x", n))
}

func TestJournalEviction(t *testing.T) {
	t.Parallel()
	const third = maxKept/3 - 100
	j := newJournal(bounds{maxEntries, maxKept})
	for n := uint64(1); n <= 6; n++ {
		j.askFor(0, n, fmt.Sprint(n), "m")
	}
	j.line(0, answerOf(1, third), false, true) // nobody was there
	j.line(0, answerOf(2, third), true, true)  // a daemon was given this one
	j.line(0, answerOf(3, third), false, true)
	if got := j.states(); got != "1:answered 2:answered 3:answered 4:running 5:running 6:running" {
		t.Fatal(got)
	}
	j.line(0, answerOf(4, third), false, true)
	if got := j.states(); got != "1:answered 2:lost 3:answered 4:answered 5:running 6:running" {
		t.Error("what was delivered goes first: ", got)
	}
	j.line(0, answerOf(5, third), false, true)
	if got := j.states(); got != "1:lost 2:lost 3:answered 4:answered 5:answered 6:running" {
		t.Error("then the oldest: ", got)
	}
	j.line(0, answerOf(6, maxKept+1), false, true)
	if got := j.states(); got != "1:lost 2:lost 3:answered 4:answered 5:answered 6:lost" {
		t.Error("too big for all of it: ", got)
	}
	j.line(0, []byte(`{"id":"q","method":"`+strings.Repeat("x", third)+`"}`), false, true)
	j.line(0, []byte(`{"id":"r","method":"`+strings.Repeat("x", third)+`"}`), false, true)
	j.line(0, []byte(`{"id":"s","method":"`+strings.Repeat("x", third)+`"}`), false, true)
	if got := j.states(); got != "1:lost 2:lost 3:lost 4:lost 5:lost 6:lost" || j.takeRefusals() != nil {
		t.Error("questions and answers share the room: ", got)
	}
	j.line(0, []byte(`{"id":"t","method":"`+strings.Repeat("x", third)+`"}`), false, true)
	if diff := cmp.Diff([]string{`"q"`}, texts(j.takeRefusals())); diff != "" || j.refused != 1 {
		t.Errorf("refused %d, %s", j.refused, diff)
	}
}

func TestJournalQuestions(t *testing.T) {
	t.Parallel()
	j := newJournal(bounds{maxEntries, maxKept})
	for i := range maxEntries + 2 {
		j.line(0, fmt.Appendf(nil, `{"id":%d,"method":"ask"}`, i), false, true)
	}
	if diff := cmp.Diff([]string{"0", "1"}, texts(j.takeRefusals())); diff != "" || j.refused != 2 || j.asking.len != maxEntries {
		t.Errorf("refused %d, kept %d, %s", j.refused, j.asking.len, diff)
	}
	j.told([]byte("2"), nil)
	j.told([]byte("2"), nil)
	j.told([]byte("0"), nil)
	if j.asking.len != maxEntries-1 || len(j.wanted) != maxEntries-1 {
		t.Errorf("%d questions, %d in the index", j.asking.len, len(j.wanted))
	}
}

// TestJournalBounds: entries, requests of a handshake, and the ring of those that are done with.
func TestJournalBounds(t *testing.T) {
	t.Parallel()
	j := newJournal(bounds{maxEntries, maxKept})
	for n := range uint64(maxEntries) {
		j.askFor(0, n, fmt.Sprint(n), "m")
	}
	if j.room(1) || j.running != maxEntries {
		t.Errorf("room at %d running", j.running)
	}
	j.line(0, answerOf(5, 1), true, true)
	if !j.room(1) || j.room(2) {
		t.Error("an answer makes room for one")
	}
	j.askFor(time.Minute, maxEntries, "9999", "m")
	if j.asked.len != maxEntries || j.numbers[5] != nil || j.numbers[6] == nil {
		t.Errorf("%d entries; the oldest with an answer must go", j.asked.len)
	}
	i := j.info(time.Minute)
	if len(i.Finished) != 1 || i.Finished[0].Number != 5 || !i.Complete {
		t.Errorf("finished %+v, complete %v", i.Finished, i.Complete)
	}
	for n := range uint64(maxEntries) {
		j.done(2*time.Minute, n)
	}
	i = j.info(2 * time.Minute)
	if len(i.Finished) != maxEntries || !i.Complete {
		t.Errorf("%d finished, complete %v", len(i.Finished), i.Complete)
	}
	j.done(3*time.Minute, maxEntries)
	if i = j.info(3 * time.Minute); len(i.Finished) != maxEntries || i.Complete {
		t.Errorf("%d finished, complete %v although one was forgotten", len(i.Finished), i.Complete)
	}
	if i = j.info(3*time.Minute + finishedFor); len(i.Finished) != 0 || !i.Complete {
		t.Errorf("%d finished, complete %v after all that time", len(i.Finished), i.Complete)
	}
}

func TestJournalHandshake(t *testing.T) {
	t.Parallel()
	j := newJournal(bounds{maxEntries, maxKept})
	if j.handshake != handshakeNone {
		t.Error(j.handshake)
	}
	big := []byte(`{"id":1,"method":"initialize","params":"` + strings.Repeat("x", maxRequest) + `"}`)
	j.ask(0, 1, []byte("1"), []byte(`"initialize"`), nil, big)
	if j.calls(0)[0].Request != nil {
		t.Error("a request above the bound is held")
	}
	j.ask(0, 2, []byte("2"), []byte(`"server\/discover"`), nil, []byte("the request"))
	if got := string(j.calls(0)[1].Request); got != "the request" || j.handshake != handshakeSent {
		t.Errorf("request %q, %s", got, j.handshake)
	}
	j.line(0, answerOf(2, 1), true, true)
	if j.handshake != handshakeAnswered {
		t.Error(j.handshake)
	}
	j.told(nil, []byte(`"notifications/initialized"`))
	if j.handshake != handshakeInitialized {
		t.Error(j.handshake)
	}
}

// TestJournalOfAnOlderDaemon never says DONE: what it was given it needs no more.
func TestJournalOfAnOlderDaemon(t *testing.T) {
	t.Parallel()
	j := newJournal(bounds{maxEntries, maxKept})
	j.askFor(0, 1, "1", "m")
	j.askFor(0, 2, "2", "m")
	j.line(0, answerOf(1, 1), true, false)
	j.line(0, answerOf(2, 1), false, false)
	if got := j.states(); got != "2:answered" {
		t.Error(got)
	}
}

func TestJournalTakesBack(t *testing.T) {
	t.Parallel()
	j := newJournal(bounds{maxEntries, maxKept})
	j.askFor(0, 1, "1", "m")
	j.unask(1)
	j.unask(1)
	if j.running != 0 || len(j.open) != 0 || j.finished.len != 0 {
		t.Errorf("running %d, open %d, finished %d", j.running, len(j.open), j.finished.len)
	}
	j.unseen(0)
	if j.info(finishedFor-1).Complete || !j.info(finishedFor).Complete {
		t.Error("a request that nobody saw must cloud ten minutes")
	}
}
