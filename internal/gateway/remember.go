package gateway

import (
	"encoding/json"
	"log/slog"

	"mcpx/internal/era"
	"mcpx/internal/key"
)

// laneState is what a lane leaves with its supervisor, so that a later daemon goes on with the child without a second
// handshake (supervisor.md section 6). Bytes of the backend are kept as they are.
type laneState struct {
	Era     era.Era `json:"era"`
	Version string  `json:"version"`
	Shared  bool    `json:"shared,omitempty"`
	Result  []byte  `json:"result"` // of initialize or server/discover
	Caps    []byte  `json:"caps,omitempty"`
	Epoch   uint64  `json:"epoch"`
	Serial  uint64  `json:"serial"`
	Level   int     `json:"level"` // lowest log level that the server was asked for, -1 none
	Asks    bool    `json:"asks,omitempty"`
	Legacy  verdict `json:"legacy,omitempty"` // what is known of the eras of the server
	Modern  verdict `json:"modern,omitempty"`
	// Parked are the calls that wait for answers of modern clients, by the key of their requestState.
	Parked map[string]parkedState `json:"parked,omitempty"`
}

// remember stores the state of the lane with the supervisor, then gives up the answers of the handshake.
func (l *lane) remember() {
	if l.kept == nil || l.srv.g.leaving() {
		return
	}
	st := laneState{
		Era: l.era, Version: l.version(), Shared: l.shared, Result: l.result, Caps: l.caps, Epoch: l.epoch, Serial: l.serial,
		Asks: l.srv.asks.Load(), Legacy: verdict(l.srv.legacy.Load()), Modern: verdict(l.srv.modern.Load()), Parked: l.srv.parkedOn(l),
	}
	l.mu.Lock()
	st.Level = l.level
	due := l.handshake
	l.handshake = nil
	l.mu.Unlock()
	blob, err := json.Marshal(st)
	if err == nil {
		err = l.kept.Save(blob)
	}
	if err != nil {
		// The next daemon finds no state or an older one. Without one it starts the server anew.
		l.srv.g.log.LogAttrs(ctxNone, slog.LevelWarn, "state of a server not kept", slog.String(key.Server, l.srv.name()), slog.String(key.Lane, l.key), slog.String(key.Cause, err.Error()))
	}
	l.done(due...)
}

// setLink gives the lane its link; a fast child may have spoken already.
func (l *lane) setLink(link Link) {
	l.link = link
	l.kept, _ = link.(KeptLink)
}
