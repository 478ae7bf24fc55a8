package gateway

import (
	"encoding/base64"
	"time"

	"mcpx/internal/era"
	"mcpx/internal/rpc"
)

// witnessFor is how long it is known of every request whether an earlier daemon sent it: as long as a supervisor
// remembers what is Done.
const witnessFor = 10 * time.Minute

// past is what is known of the calls of a session that an earlier daemon took and that are not in flight any more
// (supervisor.md section 10).
type past struct {
	ends  map[string]kept // calls that are over, by the name of their stream
	rest  trouble         // what any other request is told
	later trouble         // the same, when the witness has forgotten
	until time.Time       // the witness knows every request until then

	mine   map[string]struct{} // ids of requests that came since: of them the witness knows nothing
	unsent map[string]struct{} // ids that a client was told were never sent
}

// maxMine bounds either set of ids. Above it the witness is not asked any more.
const maxMine = 4096

// home says which process a session began with. The journal of a supervisor knows the requests of one process: what was
// sent to one before it is in no journal.
type home struct {
	Epoch   uint64    `json:"epoch,omitempty"`
	Serial  uint64    `json:"serial,omitempty"`
	Started time.Time `json:"started,omitzero"`
}

// homeOf is the process that the session has now.
func homeOf(sl *slot) home {
	l := sl.usable()
	if l == nil || l.kept == nil {
		return home{}
	}
	return home{l.epoch, l.serial, l.link.Info().Started}
}

// kept is a call of an earlier daemon that has no answer any more.
type kept struct {
	id     []byte // the client's raw id
	method string
	told   trouble
}

// unsupervised is why a direct child is gone.
const unsupervised = "the server is not supervised (it ran without a supervisor) and ended with the daemon"

// noWitness is the past of a session whose backend nobody watched while no daemon ran.
func (s *Server) noWitness(now time.Time) *past {
	text := "the daemon restarted; what became of the call is unknown, it may have run"
	e := s.def.Load()
	switch {
	case e.HTTP != nil:
		text = "the daemon restarted while the call was at a remote server; it may have run"
	case e.Direct:
		text = unsupervised + "; the call may have run"
	}
	t := trouble{class: SentUnknown, text: text}
	return &past{rest: t, later: t, until: now.Add(witnessFor)}
}

// witness is the past of a session whose supervisor tells what it remembers. complete says that this is everything.
func (s *Server) witness(complete bool, exit *Exit, now time.Time) *past {
	p := s.noWitness(now)
	p.rest.exit, p.later.exit = exit, exit
	if complete {
		p.rest = trouble{class: NotSent, text: "the daemon restarted before the call was sent", exit: exit, stops: exit == nil}
	}
	return p
}

// add notes the end of a call.
func (p *past) add(id []byte, method string, told trouble) {
	if p.ends == nil {
		p.ends = map[string]kept{}
	}
	p.ends[era.StreamName(id)] = kept{id, method, told}
}

// toldUnsent reports whether a client was told that a request with this id was never sent.
func (p *past) toldUnsent(idKey string) bool {
	_, told := p.unsent[idKey]
	return told
}

// made notes the id of a request that came since.
func (p *past) made(idKey string, now time.Time) {
	if len(p.mine) >= maxMine || now.After(p.until) {
		return
	}
	if p.mine == nil {
		p.mine = map[string]struct{}{}
	}
	p.mine[idKey] = struct{}{}
}

// of is what a client that asks for the outcome of a request is told. id is nil when its event id does not hold it. relayed:
// it is not told that a request was not sent.
func (p *past) of(name string, id []byte, relayed bool, now time.Time) (kept, bool) {
	if k, ok := p.ends[name]; ok {
		return k, true
	}
	if id == nil {
		return kept{}, false
	}
	idKey, _ := rpc.IDKey(id)
	if _, mine := p.mine[idKey]; mine || now.After(p.until) || len(p.mine) >= maxMine || len(p.unsent) >= maxMine {
		return kept{id: id, told: p.later}, true
	}
	if p.rest.class == NotSent && !relayed {
		if p.unsent == nil {
			p.unsent = map[string]struct{}{}
		}
		p.unsent[idKey] = struct{}{}
	}
	return kept{id: id, told: p.rest}, true
}

// streamID gives the raw request id that the stream part of an event id holds; nil when it holds none.
func streamID(part string) []byte {
	if len(part) < 2 || part[0] != 'r' {
		return nil
	}
	id, err := base64.RawURLEncoding.Strict().DecodeString(part[1:])
	if err != nil {
		return nil
	}
	if _, ok := rpc.IDKey(id); !ok || len(id) > maxResumedID {
		return nil
	}
	return id
}

// maxResumedID is the longest raw id that a client can have sent: quotes around the limit of rpc.Scan.
const maxResumedID = 1<<10 + 2
