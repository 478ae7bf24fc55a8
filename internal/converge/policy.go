package converge

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"

	"mcpx/internal/fault"
)

// Unlisted says how much it asks for a person that an agent has a server that is not in the catalog.
type Unlisted string

// The rules.
const (
	UnlistedWarn  Unlisted = "warn"
	UnlistedBlock Unlisted = "block"
)

// Policy is what a person wrote down in config/policy.toml. The zero Policy is what holds without that file.
type Policy struct {
	Unknown Unlisted    `json:"unknown,omitempty"` // "" is warn
	Auto    []RiskClass `json:"auto,omitempty"`    // classes of plans that may be applied without a person; none by default
}

// Valid says what is wrong with the policy.
func (p Policy) Valid() error {
	no := func(field, format string, args ...any) error {
		return fault.New(fault.Invalid, "policy-invalid").Saying("%s: %s", field, fmt.Sprintf(format, args...)).
			Hinting(`write unknown = "warn" or "block", and auto = ["low", "normal"] or less`)
	}
	if p.Unknown != "" && p.Unknown != UnlistedWarn && p.Unknown != UnlistedBlock {
		return no("unknown", "%q is not one of warn, block", p.Unknown)
	}
	for i, class := range p.Auto {
		if class == RiskHigh {
			return no("auto", "plans of class high always need a person")
		}
		if class != RiskLow && class != RiskNormal {
			return no("auto", "%q is not one of low, normal", class)
		}
		if slices.Contains(p.Auto[:i], class) {
			return no("auto", "%q is there twice", class)
		}
	}
	return nil
}

// Blocks says whether a server that is not in the catalog is a blocker.
func (p Policy) Blocks() bool { return p.Unknown == UnlistedBlock }

// Digest names the content of the policy: plans and approvals count for one digest only. The order in which classes are
// written does not matter, and a default that is spelled out is still the default.
func (p Policy) Digest() string {
	if p.Unknown == "" {
		p.Unknown = UnlistedWarn
	}
	p.Auto = slices.Sorted(slices.Values(p.Auto))
	sum := sha256.Sum256(canonical(p))
	return hex.EncodeToString(sum[:16])
}

// Allows finds the line by which plans of the class may be applied without a person; "" there is none.
func (p Policy) Allows(class RiskClass) string {
	if class == RiskHigh || !slices.Contains(p.Auto, class) {
		return ""
	}
	return fmt.Sprintf("auto = [%q]", class)
}

// canonical spells a value in one way: fields in the order of the type, keys of maps sorted.
func canonical(v any) []byte {
	out, err := json.Marshal(v)
	if err != nil {
		panic("converge: a value without channels and functions cannot be encoded: " + err.Error())
	}
	return out
}
