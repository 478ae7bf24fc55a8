package catalog

import (
	"context"
	"time"
)

// Offer is what a server offered when it was last asked for its tools on behalf of somebody who may use them. It says what
// there is to find, and gives no right to anything: Pins do.
type Offer struct {
	Server string    `json:"server"` // id of the entry
	Tools  []ToolPin `json:"tools"`  // by name, at most MaxPinnedTools
	Seen   time.Time `json:"seen_at"`
}

// Tool finds a tool by its name.
func (o Offer) Tool(name string) (ToolPin, bool) {
	for _, t := range o.Tools {
		if t.Name == name {
			return t, true
		}
	}
	return ToolPin{}, false
}

// OfferReader reads the offers. It is part of the transaction port that package store joins.
type OfferReader interface {
	// AllOffers are the offers of every server that has one, by id.
	AllOffers(ctx context.Context) ([]Offer, error)
	// OfferOf gives the offer of a server; the zero one when it has none.
	OfferOf(ctx context.Context, p OfferOf) (Offer, error)
}

// OfferStore reads and changes the offers. Those of a server of the catalog end with it.
type OfferStore interface {
	OfferReader
	// PutOffer writes the offer of a server whole, also of one that a repository names.
	PutOffer(ctx context.Context, p PutOffer) error
}

// OfferOf names the server.
type OfferOf struct{ Server string }

// PutOffer carries the offer to write.
type PutOffer struct{ Offer Offer }
