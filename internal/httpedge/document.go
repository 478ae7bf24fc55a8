package httpedge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/semaphore"

	"mcpx/internal/auth"
)

// Bounds of loading the documents of clients.
const (
	documentWithin = 5 * time.Second
	documentLasts  = 10 * time.Minute // a document that was loaded is not loaded again
	maxDocument    = 64 << 10         // bytes
	maxDocuments   = 64               // that are kept
	maxLoads       = 4                // at once: anybody can ask for one
)

// Documents loads what clients say of themselves at the URL that is their id. It goes nowhere but to the open network, on no
// way around: a client cannot make it look at this machine or its neighbours.
type Documents struct {
	client http.Client
	now    func() time.Time
	loads  *semaphore.Weighted

	mu   sync.Mutex // guards kept
	kept map[string]keptDocument
}

type keptDocument struct {
	client auth.Client
	until  time.Time
}

// NewDocuments makes the loader. outside says which addresses it may go to; auth.Outside in the product.
func NewDocuments(now func() time.Time, outside func(netip.Addr) bool) *Documents {
	dialer := &net.Dialer{Timeout: documentWithin, Control: func(_, address string, _ syscall.RawConn) error {
		to, err := netip.ParseAddrPort(address) // after the name was looked up: what is dialled is what is checked
		if err != nil || !outside(to.Addr()) {
			return fmt.Errorf("%s is not in the open network", address)
		}
		return nil
	}}
	return &Documents{
		client: http.Client{
			Timeout: documentWithin,
			// No proxy and no redirect: both would lead elsewhere than where it was checked.
			Transport:     &http.Transport{DialContext: dialer.DialContext, DisableKeepAlives: true, TLSHandshakeTimeout: documentWithin, MaxResponseHeaderBytes: 16 << 10},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		now: now, loads: semaphore.NewWeighted(maxLoads), kept: map[string]keptDocument{},
	}
}

// Client is what the document at id says. A Denial says why it cannot be used.
func (d *Documents) Client(ctx context.Context, id string) (auth.Client, error) {
	if err := auth.CheckDocumentURL(id); err != nil {
		return auth.Client{}, err
	}
	if c, ok := d.known(id); ok {
		return c, nil
	}
	if !d.loads.TryAcquire(1) {
		return auth.Client{}, &auth.Denial{Code: auth.TemporarilyUnavailable, Text: "too many clients are looked up at once; try again"}
	}
	defer d.loads.Release(1)
	doc, err := d.load(ctx, id)
	if err != nil {
		// What went wrong is for our log alone: a client must not learn by it what there is.
		return auth.Client{}, errors.Join(&auth.Denial{Code: auth.InvalidClient, Text: "the document at client_id cannot be loaded"}, err)
	}
	c, err := auth.FromDocument(id, doc)
	if err == nil {
		d.keep(id, c)
	}
	return c, err
}

func (d *Documents) load(ctx context.Context, id string) (doc auth.Document, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, id, nil)
	if err != nil {
		return doc, err
	}
	r.Header.Set("Accept", "application/json")
	answer, err := d.client.Do(r)
	if err != nil {
		return doc, err
	}
	defer answer.Body.Close()
	kind, _, _ := mime.ParseMediaType(answer.Header.Get("Content-Type"))
	if answer.StatusCode != http.StatusOK || kind != "application/json" {
		return doc, fmt.Errorf("it answers %d with %q", answer.StatusCode, kind)
	}
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxDocument+1))
	if err == nil && len(body) > maxDocument {
		err = fmt.Errorf("it has more than %d bytes", maxDocument)
	}
	if err != nil {
		return doc, err
	}
	return doc, json.Unmarshal(body, &doc)
}

func (d *Documents) known(id string) (auth.Client, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	k, ok := d.kept[id]
	return k.client, ok && d.now().Before(k.until)
}

// keep remembers a client; the one that would be forgotten first makes room.
func (d *Documents) keep(id string, c auth.Client) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.kept) >= maxDocuments {
		var first string
		for other, k := range d.kept {
			if first == "" || k.until.Before(d.kept[first].until) {
				first = other
			}
		}
		delete(d.kept, first)
	}
	d.kept[id] = keptDocument{c, d.now().Add(documentLasts)}
}
