// Package telemetry decides how the daemon's log looks, which lines of which component pass, where they go and how much
// of them is kept; the same for the output of servers. It refuses to know what the lines mean.
//
// Invariant: a write to a log never blocks on a reader and never grows without bound.
package telemetry

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"

	"mcpx/internal/fault"
	"mcpx/internal/key"
)

// Levels says from which level on lines pass: one default and exceptions for components.
type Levels struct {
	Default slog.Level
	Of      map[string]slog.Level // by component, which is the name of a package
}

// ParseLevels reads the form of MCPX_LOG: "debug", or "gateway:debug,shim:info", or both. "" is info.
func ParseLevels(text string) (Levels, error) {
	levels := Levels{Default: slog.LevelInfo, Of: map[string]slog.Level{}}
	for part := range strings.SplitSeq(text, ",") {
		part = strings.TrimSpace(part)
		if part == "" {
			continue
		}
		component, word, named := strings.Cut(part, ":")
		if !named {
			word = component
		}
		var level slog.Level
		if err := level.UnmarshalText([]byte(word)); err != nil {
			return Levels{}, fault.New(fault.Invalid, "log-level-invalid").Saying("MCPX_LOG has %q, which is no level", word).
				Hinting("use debug, info, warn or error, for all or for one package: MCPX_LOG=gateway:debug,shim:info")
		}
		if named {
			levels.Of[component] = level
		} else {
			levels.Default = level
		}
	}
	return levels, nil
}

// NewLogger makes the root logger: text for a terminal, JSON for everything else.
func NewLogger(out io.Writer, terminal bool, levels Levels) *slog.Logger {
	options := &slog.HandlerOptions{Level: slog.LevelDebug - 4} // the filter below decides
	var inner slog.Handler = slog.NewJSONHandler(out, options)
	if terminal {
		inner = slog.NewTextHandler(out, options)
	}
	return slog.New(&filter{inner: inner, levels: levels, level: levels.Default})
}

// For is the logger of one component.
func For(log *slog.Logger, component string) *slog.Logger {
	return log.With(slog.String(key.Component, component))
}

// filter drops lines below the level of their component.
type filter struct {
	inner  slog.Handler
	levels Levels
	level  slog.Level
}

func (f *filter) Enabled(_ context.Context, level slog.Level) bool { return level >= f.level }

func (f *filter) Handle(ctx context.Context, r slog.Record) error {
	if err := f.inner.Handle(ctx, r); err != nil {
		return fmt.Errorf("telemetry: log: %w", err)
	}
	return nil
}

func (f *filter) WithAttrs(attrs []slog.Attr) slog.Handler {
	next := *f
	next.inner = f.inner.WithAttrs(attrs)
	for _, a := range attrs {
		if a.Key != key.Component {
			continue
		}
		if level, ok := f.levels.Of[a.Value.String()]; ok {
			next.level = level
		}
	}
	return &next
}

func (f *filter) WithGroup(name string) slog.Handler {
	next := *f
	next.inner = f.inner.WithGroup(name)
	return &next
}
