package bridge

import (
	"crypto/sha256"
	"sync"
	"time"

	"mcpx/internal/rpc"
)

const (
	// maxQuestions bounds the questions that are remembered, as the daemon bounds the open ones of a server.
	maxQuestions = 256
	// maxAnswers bounds the bytes of their answers. The oldest are forgotten first.
	maxAnswers = 4 << 20
	// answerSettles is the time after which an answer that the daemon accepted has surely reached the server: no later
	// daemon asks for it again, and what looks the same is another question.
	answerSettles = 10 * time.Second
	// reofferFor is how long after its answer a question can come again: the outage that the bridge endures, the minute
	// for which a daemon offers what its predecessor left, and slack.
	reofferFor = 2 * time.Minute
)

// questions remembers what the server asked the client. A daemon that follows another one offers again what may not
// have been answered: the client must not see a question twice, and an answer that was given must arrive.
type questions struct {
	mu    sync.Mutex // guards the fields below
	known map[string]*question
	order []string // keys by age; may hold forgotten ones
	bytes int      // of the answers
	epoch uint64   // how often a daemon was lost
}

// question is one request of the server.
type question struct {
	sum    [sha256.Size]byte // of its bytes: servers use ids again
	epoch  uint64            // when it was shown
	answer []byte            // nil: the client has not answered
	at     time.Time         // when the daemon accepted the answer; zero: it has not
}

// offered says whether the client has to be shown a question, and the answer that it gave to it already, if any.
func (q *questions) offered(key string, body []byte, now time.Time) (show bool, answer []byte) {
	q.mu.Lock()
	defer q.mu.Unlock()
	sum := sha256.Sum256(body)
	if old := q.known[key]; old != nil && old.sum == sum {
		switch again := old.epoch < q.epoch; {
		case old.answer == nil:
			return false, nil
		case again && (old.at.IsZero() || now.Sub(old.at) < reofferFor):
			old.epoch, old.at = q.epoch, time.Time{}
			return false, old.answer
		}
	}
	q.forgetLocked(key)
	if q.known == nil {
		q.known = map[string]*question{}
	}
	q.known[key] = &question{sum: sum, epoch: q.epoch}
	q.order = append(q.order, key)
	q.trimLocked()
	return true, nil
}

// answered keeps the answer of the client.
func (q *questions) answered(key string, answer []byte) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if k := q.known[key]; k != nil && k.answer == nil {
		k.answer = answer
		q.bytes += len(answer)
		q.trimLocked()
	}
}

// accepted says that a daemon took the answer.
func (q *questions) accepted(key string, now time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if k := q.known[key]; k != nil && k.answer != nil {
		k.at = now
	}
}

// withdrawn forgets a question that the server does not ask any more.
func (q *questions) withdrawn(key string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.forgetLocked(key)
}

// broke says that the daemon may be another one from now on.
func (q *questions) broke(now time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.epoch++
	for key, k := range q.known {
		if k.answer != nil && !k.at.IsZero() && now.Sub(k.at) > answerSettles {
			q.forgetLocked(key)
		}
	}
}

// reset forgets everything: the questions of a session end with it.
func (q *questions) reset() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.known, q.order, q.bytes = nil, nil, 0
}

func (q *questions) forgetLocked(key string) {
	if k := q.known[key]; k != nil {
		q.bytes -= len(k.answer)
		delete(q.known, key)
	}
}

func (q *questions) trimLocked() {
	for len(q.known) > maxQuestions || q.bytes > maxAnswers {
		q.forgetLocked(q.order[0])
		q.order = q.order[1:]
	}
	if len(q.order) > 2*maxQuestions { // mostly forgotten ones
		kept := q.order[:0]
		for _, key := range q.order {
			if q.known[key] != nil {
				kept = append(kept, key)
			}
		}
		q.order = kept
	}
}

// show says whether a message of the server goes to the client. What a later daemon offers again does not; an answer
// that the client gave already is sent once more.
func (b *bridge) show(message []byte, m rpc.Message) bool {
	switch {
	case m.Kind == rpc.Notification && m.MethodOf(message) == cancelled:
		if key, ok := rpc.IDKey(m.RequestID.Of(message)); ok {
			b.asked.withdrawn(key)
		}
	case m.Kind == rpc.Request:
		key, ok := rpc.IDKey(m.ID.Of(message))
		if !ok {
			return true
		}
		show, answer := b.asked.offered(key, message, b.cfg.Now())
		if answer != nil {
			b.aside.Go(func() { b.notify(&item{line: answer, kind: rpc.Result, answers: key}) })
		}
		return show
	}
	return true
}
