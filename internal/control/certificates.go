package control

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"mcpx/internal/api"
	"mcpx/internal/converge"
	"mcpx/internal/event"
	"mcpx/internal/store"
)

// certified are the agents with a certificate that counts.
func certified(all map[string]converge.Certificate) map[string]bool {
	out := map[string]bool{}
	for agent, one := range all {
		out[agent] = one.Void == ""
	}
	return out
}

// KeepCertificate lets the certificate of a run count, or tells that it does not. Whoever asks must sit at a terminal.
func (c *Control) KeepCertificate(ctx context.Context, in api.KeepCertificate) (api.KeptCertificate, error) {
	if err := c.allow(ctx, "agent.certify"); err != nil {
		return api.KeptCertificate{}, err
	}
	agent, err := c.cfg.ParseAgent(in.Agent)
	if err != nil {
		return api.KeptCertificate{}, err
	}
	if _, err := c.cfg.Person(api.CallerOf(ctx).Pid); err != nil {
		return api.KeptCertificate{}, err
	}
	c.files.Lock() // an audit notes certificates, too
	defer c.files.Unlock()
	if err := c.cfg.KeepCertificate(agent, in.Certificate); err != nil {
		return api.KeptCertificate{}, err
	}
	if err := c.cfg.DB.Change(ctx, func(tx store.Tx) error { return c.noteCertificates(ctx, tx) }); err != nil {
		return api.KeptCertificate{}, err
	}
	c.stir() // what needs a certificate may be applied now
	one := c.cfg.Certificates(ctx)[agent]
	return api.KeptCertificate{Agent: agent, Counts: one.Void == "", Why: one.Void, Version: one.Version, Operation: api.OperationOf(ctx)}, nil
}

// noteCertificates tells of certificates that count since the last look, and of those that count no more.
func (c *Control) noteCertificates(ctx context.Context, tx store.Tx) error {
	all := c.cfg.Certificates(ctx)
	records, err := tx.AgentRecords(ctx)
	if err != nil {
		return err
	}
	agents := slices.Collect(maps.Keys(all))
	for _, r := range records {
		agents = append(agents, r.Agent)
	}
	slices.Sort(agents)
	for _, agent := range slices.Compact(agents) {
		record, one := recordOf(records, agent), all[agent]
		now, kind := "", event.AgentCertificateVoid
		text := fmt.Sprintf("the certificate of %s counts no more", agent)
		if _, known := all[agent]; known && one.Void == "" {
			now, kind, text = one.Name(), event.AgentCertified, fmt.Sprintf("%s %s passed its scenarios on this machine", agent, one.Version)
		}
		if record.Certificate == now {
			continue
		}
		record.Certificate = now
		if err := tx.PutAgentRecord(ctx, converge.PutAgentRecord{Record: record}); err != nil {
			return err
		}
		body := struct {
			Version string `json:"version,omitempty"`
			Program string `json:"program_sha256,omitempty"`
			Why     string `json:"why,omitempty"`
		}{Version: one.Version, Program: one.Program}
		if now == "" {
			body.Why = cmp.Or(one.Void, converge.VoidAbsent)
		}
		if err := c.tell(ctx, tx, kind, event.Refs{event.RefAgent: agent}, text, body); err != nil {
			return err
		}
	}
	return nil
}
