package httpedge

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"

	"mcpx/internal/era"
	"mcpx/internal/gateway"
	"mcpx/internal/rpc"
)

// batch serves a JSON-RPC batch. Only sessions of 2025-03-26 know them.
func (f *Front) batch(w http.ResponseWriter, r *http.Request, srv *gateway.Server, caller gateway.Caller, body []byte) {
	id := r.Header.Get(hdrSession)
	if id == "" {
		refuse(w, http.StatusBadRequest, -32600, "the body is not one JSON-RPC object")
		return
	}
	x, bad := srv.Session(id, caller)
	if bad != nil {
		writeJSON(w, bad.Status, bad.Body(nil))
		return
	}
	if x.Version != era.V20250326 {
		refuse(w, http.StatusBadRequest, -32600, "batches exist in revision 2025-03-26 only; send one message in each POST")
		return
	}
	parts, err := rpc.Batch(body)
	if err != nil || len(parts) == 0 {
		refuse(w, http.StatusBadRequest, -32700, "the batch is empty or not valid JSON")
		return
	}
	if forAnother(w, r, x.Epoch()) {
		return
	}
	v := view{w: w, r: r, asJSON: true, srv: srv, f: f}
	answers, inWork, failed := v.batchParts(r.Context(), x, body, parts)
	switch {
	case failed != nil:
		writeJSON(w, http.StatusBadRequest, failed)
	case len(answers) == 0:
		w.WriteHeader(http.StatusAccepted)
	default:
		writeJSON(w, http.StatusOK, joinArray(answers))
	}
	for _, p := range inWork {
		if r.Context().Err() == nil {
			p.st.Delivered()
		} else {
			x.Promote(p.st, p.id) // its client can ask for each request by its id
		}
	}
}

// maxBatch bounds the elements of one batch: each request of it is a call in flight.
const maxBatch = 256

// batchParts sends the elements one by one and collects the answers in order. Notifications of the calls are read and
// dropped: a JSON array has no place for them, and the standalone stream is open to a client that wants them.
func (v view) batchParts(ctx context.Context, x *gateway.Session, body []byte, parts []rpc.Span) (answers [][]byte, inWork []*pending, failed []byte) {
	if len(parts) > maxBatch {
		return nil, nil, rpc.ErrorResponse(nil, -32600, fmt.Sprintf("the batch has more than %d elements", maxBatch), nil)
	}
	msgs := make([]rpc.Message, len(parts))
	for i, p := range parts {
		m, err := rpc.Scan(p.Of(body))
		if err != nil || m.Kind == rpc.Request && m.MethodOf(p.Of(body)) == "initialize" {
			return nil, nil, rpc.ErrorResponse(nil, -32600, "an element of the batch is not a JSON-RPC message, or is initialize", nil)
		}
		msgs[i] = m
	}
	for i, p := range parts {
		if msgs[i].Kind == rpc.Request && WasRelayed(v.r) && x.TooLate(msgs[i].ID.Of(p.Of(body))) {
			return nil, nil, rpc.ErrorResponse(nil, -32603, "the batch came late from the daemon before, and none of it ran; repeat it", nil)
		}
	}
	for i, p := range parts {
		one := rpc.OneLine(slices.Clone(p.Of(body)))
		switch msgs[i].Kind {
		case rpc.Request:
			v.body, v.msg = one, msgs[i]
			st, _ := x.Ask(one, msgs[i], gateway.Asking{Plain: true, Late: WasRelayed(v.r)}) // one that does not run says so
			inWork = append(inWork, v.pending(x, st))
		case rpc.Notification:
			x.Notify(one, msgs[i])
		case rpc.Result, rpc.Error:
			x.Respond(one, msgs[i])
		}
	}
	for _, p := range inWork {
		if a := final(ctx, p); a != nil {
			answers = append(answers, a)
		}
	}
	return answers, inWork, nil
}

// final waits for the response of a stream; nil when there is none.
func final(ctx context.Context, p *pending) []byte {
	r := p.st.Follow()
	defer r.Stop()
	for {
		e, state := r.Next()
		switch state {
		case gateway.ReadEvent:
			if e.Final {
				return e.Data
			}
		case gateway.ReadEnd, gateway.ReadMissed:
			return nil
		case gateway.ReadMoved:
			var last []byte
			p.rest(ctx, func(one piece) bool {
				last = one.data
				return !one.final
			})
			return last
		case gateway.ReadWait:
			select {
			case <-r.Wake():
			case <-r.Moved():
			case <-ctx.Done():
				return nil
			}
		}
	}
}

func joinArray(parts [][]byte) []byte {
	raw := make([]json.RawMessage, len(parts))
	n := 2
	for i, p := range parts {
		raw[i] = p
		n += len(p) + 1
	}
	out := append(make([]byte, 0, n), '[')
	for i, p := range raw {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, p...)
	}
	return append(out, ']')
}
