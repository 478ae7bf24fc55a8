// Package storetest decides what every store must do: one suite of cases over the Store ports, and an in-memory model
// that passes it. It refuses to know SQL; a store is tested only through its ports.
//
// Invariant: a method of store.Tx or store.Reader without a case fails the suite.
package storetest

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"sync"

	"mcpx/internal/auth"
	"mcpx/internal/catalog"
	"mcpx/internal/fault"
	"mcpx/internal/store"
)

// Model is a store.DB in memory, as simple as the ports allow. It is the oracle for real stores and the fake for tests
// of the layers above.
type Model struct {
	store.Bell
	mu    sync.RWMutex // guards state; writers hold it for the whole Change
	state state
}

type state struct {
	servers  map[string]catalog.Server // by id
	sessions map[string]store.Session  // by id
	seq      uint64
	epoch    store.Epoch
	tokens   map[string]auth.Token // by id
	governance
	staged
	ledger
	yard
	shelf
	kiln
	remote
	admission
	credentials map[string]catalog.Credential // by name
}

var _ store.DB = (*Model)(nil)

// NewModel makes an empty store.
func NewModel() *Model {
	return &Model{state: state{servers: map[string]catalog.Server{}, sessions: map[string]store.Session{}, tokens: map[string]auth.Token{}, governance: newGovernance(), staged: newStaged(), ledger: newLedger(), yard: newYard(), shelf: newShelf(), kiln: newKiln(), remote: newRemote(), admission: newAdmission(), credentials: map[string]catalog.Credential{}}}
}

// View runs fn on one snapshot.
func (m *Model) View(ctx context.Context, fn func(store.Reader) error) error {
	if err := ctx.Err(); err != nil {
		return fault.New(fault.Canceled, "store-wait").Because(err)
	}
	m.mu.RLock()
	snapshot := m.state.clone()
	m.mu.RUnlock()
	return fn(&snapshot)
}

// Change runs fn on a copy and keeps the copy when fn succeeds.
func (m *Model) Change(ctx context.Context, fn func(store.Tx) error) error {
	if err := ctx.Err(); err != nil {
		return fault.New(fault.Canceled, "store-wait").Because(err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	next := m.state.clone()
	if err := fn(&next); err != nil {
		return err
	}
	m.state = next
	m.Ring()
	return nil
}

// Close does nothing: there is nothing to free.
func (m *Model) Close() error { return nil }

// Stopped is never so.
func (m *Model) Stopped() error { return nil }

func (s *state) clone() state {
	return state{
		servers: maps.Clone(s.servers), sessions: maps.Clone(s.sessions), seq: s.seq, epoch: s.epoch, governance: s.governance.clone(),
		staged: s.staged.clone(), remote: s.remote.clone(), admission: s.admission.clone(), ledger: ledger{maps.Clone(s.operations), maps.Clone(s.results), s.opened}, yard: yard{maps.Clone(s.jobs), s.reserved}, shelf: shelf{maps.Clone(s.workspaces), s.integrations, s.shelved}, kiln: s.kiln.clone(), tokens: maps.Clone(s.tokens), credentials: maps.Clone(s.credentials),
	}
}

// copyOf is what a store gives back: nothing of it is shared with the caller, times are cut.
func copyOf(s catalog.Server) (catalog.Server, error) {
	var out catalog.Server
	data, err := json.Marshal(s)
	if err == nil {
		err = json.Unmarshal(data, &out)
	}
	out.Created, out.Updated = store.CutTime(s.Created), store.CutTime(s.Updated)
	return out, err
}

func (s *state) Servers(_ context.Context, p catalog.ListServers) ([]catalog.Server, error) {
	all := slices.SortedFunc(maps.Values(s.servers), func(a, b catalog.Server) int {
		if a.Name < b.Name { // byte order, as in a binary collation
			return -1
		}
		return 1
	})
	all = slices.DeleteFunc(all, func(c catalog.Server) bool { return c.Name <= p.After })
	all = all[:min(len(all), p.PageLimit())]
	var errs []error
	for i := range all {
		var err error
		all[i], err = copyOf(all[i])
		errs = append(errs, err)
	}
	return all, errors.Join(errs...)
}

func (s *state) owner(name string) (catalog.Server, bool) {
	for _, c := range s.servers {
		if c.Name == name || slices.Contains(c.Aliases, name) {
			return c, true
		}
	}
	return catalog.Server{}, false
}

func (s *state) ServerByName(_ context.Context, p catalog.ServerByName) (catalog.Server, error) {
	c, ok := s.owner(p.Name)
	if !ok {
		return catalog.Server{}, catalog.Unknown(p.Name)
	}
	return copyOf(c)
}

func (s *state) ServerByID(_ context.Context, p catalog.ServerByID) (catalog.Server, error) {
	c, ok := s.servers[p.ID]
	if !ok {
		return catalog.Server{}, catalog.Unknown(p.ID)
	}
	return copyOf(c)
}

func (s *state) PutServer(_ context.Context, p catalog.PutServer) error {
	for _, name := range append([]string{p.Server.Name}, p.Server.Aliases...) {
		if c, ok := s.owner(name); ok && c.ID != p.Server.ID {
			return catalog.Taken(name, c.Name)
		}
	}
	c, err := copyOf(p.Server)
	if err != nil {
		return err
	}
	s.servers[c.ID] = c
	return nil
}

func (s *state) DeleteServer(_ context.Context, p catalog.DeleteServer) error {
	if _, ok := s.servers[p.ID]; !ok {
		return catalog.Unknown(p.ID)
	}
	delete(s.servers, p.ID)
	maps.DeleteFunc(s.sessions, func(_ string, v store.Session) bool { return v.Server == p.ID })
	s.forget(p.ID)
	return nil
}

func (s *state) Sessions(_ context.Context, p store.ListSessions) ([]store.Session, error) {
	var all []store.Session
	for _, v := range s.sessions {
		if v.Seq > p.After && (p.Server == "" || v.Server == p.Server) {
			v.Initial, v.Answer, v.Setup = slices.Clone(v.Initial), slices.Clone(v.Answer), slices.Clone(v.Setup)
			all = append(all, v)
		}
	}
	slices.SortFunc(all, func(a, b store.Session) int { return int(a.Seq) - int(b.Seq) })
	return all[:min(len(all), p.PageLimit())], nil
}

func (s *state) PutSession(_ context.Context, p store.PutSession) error {
	v := p.Session
	if _, ok := s.servers[v.Server]; !ok {
		return catalog.Unknown(v.Server)
	}
	if old, ok := s.sessions[v.ID]; ok {
		v.Seq, v.Created = old.Seq, old.Created
	} else {
		s.seq++
		v.Seq, v.Created = s.seq, store.CutTime(v.Created)
	}
	v.Initial, v.Answer, v.Setup = slices.Clone(v.Initial), slices.Clone(v.Answer), slices.Clone(v.Setup)
	s.sessions[v.ID] = v
	return nil
}

func (s *state) DeleteSession(_ context.Context, p store.DeleteSession) error {
	delete(s.sessions, p.ID)
	return nil
}

func (s *state) Epoch(context.Context) (store.Epoch, error) { return s.epoch, nil }

func (s *state) RaiseEpoch(context.Context) (store.Epoch, error) {
	s.epoch++
	return s.epoch, nil
}
