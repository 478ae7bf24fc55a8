package daemon

import (
	"errors"
	"io/fs"
	"os"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"mcpx/internal/converge"
	"mcpx/internal/fault"
)

// policyFile is config/policy.toml.
type policyFile struct {
	Unknown string   `toml:"unknown"`
	Auto    []string `toml:"auto"`
}

// LoadPolicy reads what a person wrote down about plans. A file that does not exist is the policy that forbids
// everything that needs a person.
func LoadPolicy(path string) (converge.Policy, error) {
	data, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return converge.Policy{}, nil
	case err != nil:
		return converge.Policy{}, fault.New(fault.Invalid, "policy-unreadable").Saying("the policy file cannot be read").Because(err).
			Hinting("check its owner and mode")
	case len(data) > maxSettings:
		return converge.Policy{}, fault.New(fault.Invalid, "policy-unreadable").Saying("%s is larger than %d bytes", path, maxSettings)
	}
	var file policyFile
	d := toml.NewDecoder(strings.NewReader(string(data))).DisallowUnknownFields()
	if err := d.Decode(&file); err != nil {
		f := fault.New(fault.Invalid, "policy-invalid").Saying("%s: %v", path, err).Hinting("docs/governance.md lists what the file may say")
		if missing, ok := errors.AsType[*toml.StrictMissingError](err); ok && len(missing.Errors) > 0 {
			line, _ := missing.Errors[0].Position()
			return converge.Policy{}, f.Saying("%s, line %d: there is no %s in a policy", path, line, strings.Join(missing.Errors[0].Key(), "."))
		}
		if at, ok := errors.AsType[*toml.DecodeError](err); ok {
			line, column := at.Position()
			return converge.Policy{}, f.Saying("%s, line %d, column %d: %v", path, line, column, err)
		}
		return converge.Policy{}, f
	}
	p := converge.Policy{Unknown: converge.Unlisted(file.Unknown)}
	for _, class := range file.Auto {
		p.Auto = append(p.Auto, converge.RiskClass(class))
	}
	if err := p.Valid(); err != nil {
		f := fault.From(err)
		return converge.Policy{}, f.Saying("%s: %s", path, f.Message)
	}
	return p, nil
}
