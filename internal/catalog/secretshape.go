package catalog

import (
	"math"
	"net/url"
	"slices"
	"strings"
	"unicode"

	"mcpx/internal/lazyregexp"
)

// Redacted stands for a value that is not shown.
const Redacted = "[redacted]"

// Words of names, split at case changes and at everything that is no letter or digit.
var (
	secretWords = []string{
		"token", "tokens", "secret", "secrets", "password", "passwd", "passphrase", "pwd", "apikey", "apitoken",
		"credential", "credentials", "creds", "authorization", "bearer", "jwt", "accesskey", "privatekey",
	}
	// lastWords are secrets only at the end of a name: DB_PASS and GH_PAT, not PASS_THROUGH and AUTH_DOMAIN.
	lastWords = []string{"pass", "pat", "auth", "cookie", "key", "keys"}
	// countWords turn a token into a number: max_tokens, token_count (runtime.md section 9).
	countWords = []string{"max", "min", "num", "count", "limit", "total", "budget", "size", "length", "window"}
	// aboutWords at the end name something about the secret: AUTH_TYPE, TOKEN_URL, SSH_AUTH_SOCK, KEY_ID.
	aboutWords = []string{
		"id", "type", "kind", "method", "mode", "name", "file", "path", "dir", "url", "uri", "endpoint", "host", "port", "sock",
		"ttl", "expiry", "expires", "timeout", "header", "prefix", "enabled", "required", "provider", "server", "scope", "env",
	}
	// plainKeys before "key" are no secrets.
	plainKeys = []string{"public", "primary", "foreign", "sort", "cache", "partition", "object", "host"}
)

// SecretName says whether a variable, header, query parameter or flag of this name usually holds a secret.
func SecretName(name string) bool {
	words := splitWords(name)
	if len(words) == 0 {
		return false
	}
	last := words[len(words)-1]
	if slices.Contains(aboutWords, last) && last != words[0] {
		return false
	}
	for i, w := range words {
		if i == len(words)-1 && slices.Contains(lastWords, w) && (i == 0 || !slices.Contains(plainKeys, words[i-1])) {
			return true
		}
		if !slices.Contains(secretWords, w) {
			continue
		}
		counted := slices.ContainsFunc(words, func(w string) bool { return slices.Contains(countWords, w) })
		if !counted || w != "token" && w != "tokens" {
			return true
		}
	}
	return false
}

func splitWords(name string) []string {
	var words []string
	var word []rune
	flush := func() {
		if len(word) > 0 {
			words = append(words, strings.ToLower(string(word)))
			word = nil
		}
	}
	var prev rune
	for _, r := range name {
		switch {
		case !unicode.IsLetter(r) && !unicode.IsDigit(r):
			flush()
		case unicode.IsUpper(r) && unicode.IsLower(prev):
			flush()
			word = append(word, r)
		default:
			word = append(word, r)
		}
		prev = r
	}
	flush()
	return words
}

var (
	// tokenPrefix are the public prefixes of providers' tokens, followed by enough of a body.
	tokenPrefix = lazyregexp.New(`^(sk-|sk_live_|sk_test_|rk_live_|ghp_|gho_|ghu_|ghs_|ghr_|github_pat_|glpat-|gldt-|xox[abeprs]-|xapp-|` +
		`AKIA|ASIA|AIza|ya29\.|npm_|pypi-|dckr_pat_|hf_|shpat_|shpss_|SG\.|lin_api_|ntn_|secret_|figd_|sbp_|tvly-|fc-|pplx-|gsk_|xai-|` +
		`dop_v1_|rubygems_|ATATT3|pat-na1-|AGE-SECRET-KEY-)[A-Za-z0-9_\-.=]{8,}$`)
	jwt      = lazyregexp.New(`^eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{4,}\.[A-Za-z0-9_-]*$`)
	uuidText = lazyregexp.New(`^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$`)
	opaque   = lazyregexp.New(`^[A-Za-z0-9+/_=-]{24,}$`)
	scheme   = lazyregexp.New(`(?i)^(bearer|basic|token)\s+(\S+)$`)
	// template is a reference in any of the agents' spellings (governance.md section 3.2).
	template = lazyregexp.New(`\$\{\{[^}]*\}\}|\$\{[^}]*\}|\$[A-Za-z_][A-Za-z0-9_]*|\{(env|file):[^}]*\}`)
)

// HasTemplate says whether a value holds a reference that some agent would expand.
func HasTemplate(v string) bool { return template().MatchString(v) }

// longest is as much as a system takes as one argument or variable. What is longer runs nowhere, and takes minutes to look
// through: it is hidden as it is.
const longest = 128 << 10

// SecretValue says whether a value looks like a secret by itself: a provider's token, a JWT, a private key, an
// Authorization value, a URL with a password, or long text without meaning. References are no secrets.
func SecretValue(v string) bool {
	if len(v) > longest {
		return true
	}
	v = strings.TrimSpace(template().ReplaceAllString(v, ""))
	if strings.Contains(v, "-----BEGIN ") && strings.Contains(v, "PRIVATE KEY") {
		return true
	}
	if m := scheme().FindStringSubmatch(v); m != nil {
		return true
	}
	if u, err := url.Parse(v); err == nil && u.Host != "" {
		return RedactURL(v) != v
	}
	return tokenPrefix().MatchString(v) || jwt().MatchString(v) || randomText(v)
}

// randomText: long, of one token's alphabet, with digits and letters, and with the entropy of random text. Paths,
// UUIDs and words fall through.
func randomText(v string) bool {
	if !opaque().MatchString(v) || uuidText().MatchString(v) || strings.HasPrefix(v, "/") {
		return false
	}
	var counts [128]float64
	var digits, letters int
	for i := range len(v) {
		counts[v[i]]++
		switch {
		case isDigit(v[i]):
			digits++
		case isAlnum(v[i]):
			letters++
		}
	}
	if digits < 3 || letters < 3 {
		return false
	}
	var bits float64
	for _, n := range counts {
		if n > 0 {
			p := n / float64(len(v))
			bits -= p * math.Log2(p)
		}
	}
	// Random hex of 32 digits has about 3.6 bits a character, English text with digits stays below 3.4 at such lengths
	// only when it repeats; hyphenated words are told apart by their parts.
	return bits > 3.4 && longestPart(v) >= 20
}

// longestPart is the longest run without a separator: "my-server-name-2025-11-25" is made of short words.
func longestPart(v string) int {
	longest := 0
	for part := range strings.FieldsFuncSeq(v, func(r rune) bool { return r == '-' || r == '_' || r == '/' }) {
		longest = max(longest, len(part))
	}
	return longest
}

// redactedInURL stands for a value in a URL, where brackets would be escaped.
const redactedInURL = "redacted"

// RedactURL replaces passwords and the values of secret-shaped query parameters.
func RedactURL(raw string) string {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" {
		return raw
	}
	changed := false
	if p, _ := u.User.Password(); p != "" && p != redactedInURL && !HasTemplate(p) {
		u.User = url.UserPassword(u.User.Username(), redactedInURL)
		changed = true
	}
	pairs := strings.Split(u.RawQuery, "&")
	for i, pair := range pairs {
		name, value, ok := strings.Cut(pair, "=")
		if plain, err := url.QueryUnescape(value); ok && err == nil && plain != "" && plain != redactedInURL && !HasTemplate(plain) &&
			(SecretName(name) || tokenPrefix().MatchString(plain) || jwt().MatchString(plain)) {
			pairs[i] = name + "=" + redactedInURL
			changed = true
		}
	}
	if !changed {
		return raw
	}
	u.RawQuery = strings.Join(pairs, "&")
	return u.String()
}

// RedactArgs replaces what looks like a secret in an argv: values of secret-named flags, assignments, header
// arguments, URLs with secrets and secret-shaped values.
func RedactArgs(args []string) []string {
	out := make([]string, 0, len(args))
	hide := false // the argument before was a flag whose value is a secret
	for _, a := range args {
		switch name, value, assigned := strings.Cut(a, "="); {
		case len(a) > longest:
			a, hide = Redacted, false
		case hide && !strings.HasPrefix(a, "-") && !HasTemplate(a):
			a, hide = Redacted, false
		case assigned && !strings.ContainsAny(name, ":/?") && SecretName(name) && value != "" && !HasTemplate(value):
			a, hide = name+"="+Redacted, false
		case isFlag(a):
			hide = SecretName(a)
		default:
			a, hide = redactText(a), false
		}
		out = append(out, a)
	}
	return out
}

func isFlag(a string) bool {
	return strings.HasPrefix(a, "-") && !strings.Contains(a, "=") && len(a) > 1
}

func redactText(a string) string {
	// "Authorization: Bearer X", the value of --header
	if name, value, ok := strings.Cut(a, ":"); ok && SecretName(name) && !strings.HasPrefix(value, "//") &&
		strings.TrimSpace(value) != "" && !HasTemplate(value) {
		return name + ": " + Redacted
	}
	if u := RedactURL(a); u != a {
		return u
	}
	if _, value, ok := strings.Cut(a, "="); ok && SecretValue(value) {
		return strings.TrimSuffix(a, value) + Redacted
	}
	if option, value, ok := strings.Cut(a, "="); ok && strings.HasPrefix(option, "-") { // --env=TOKEN=X
		if name, inner, assigned := strings.Cut(value, "="); assigned && SecretName(name) && inner != "" && !HasTemplate(inner) {
			return option + "=" + name + "=" + Redacted
		}
	}
	if SecretValue(a) {
		return Redacted
	}
	return redactWords(redactMembers(a))
}

// jsonMember is one member of an object in a JSON argument whose value is a text.
var jsonMember = lazyregexp.New(`"([^"\\]+)"(\s*:\s*)"((?:[^"\\]|\\.)*)"`)

// redactMembers hides secrets in an argument that holds JSON, such as --config '{"debug":true,"apiKey":"X"}'.
func redactMembers(a string) string {
	return jsonMember().ReplaceAllStringFunc(a, func(pair string) string {
		m := jsonMember().FindStringSubmatch(pair)
		if m[3] == "" || HasTemplate(m[3]) || !SecretName(m[1]) && !SecretValue(m[3]) {
			return pair
		}
		return `"` + m[1] + `"` + m[2] + `"` + Redacted + `"`
	})
}

// redactWords looks into an argument of several words, such as the script of `sh -c`.
func redactWords(a string) string {
	words := strings.Fields(a)
	if len(words) < 2 {
		return a
	}
	if safe := RedactArgs(words); !slices.Equal(safe, words) {
		return strings.Join(safe, " ")
	}
	return a
}

// HideURL is RedactURL for a URL of somebody else's file: user names, which may be tokens, and secret-shaped parts of
// the path are replaced too.
func HideURL(raw string) string {
	u, err := url.Parse(RedactURL(raw))
	if err != nil { // with a reference in it, or no URL: the places where secrets stand in a URL are cut out of the text
		if head, rest, ok := strings.Cut(raw, "://"); ok {
			if _, host, found := strings.Cut(rest, "@"); found {
				rest = redactedInURL + "@" + host
			}
			raw = head + "://" + rest
		}
		if before, _, found := strings.Cut(raw, "?"); found {
			raw = before + "?" + redactedInURL
		}
		return raw
	}
	changed := false
	if u.User != nil && u.User.String() != redactedInURL && !HasTemplate(u.User.Username()) {
		u.User, changed = url.User(redactedInURL), true
	}
	parts := strings.Split(u.Path, "/")
	for i, part := range parts {
		if SecretValue(part) {
			parts[i], changed = redactedInURL, true
		}
	}
	if !changed {
		return RedactURL(raw)
	}
	u.Path, u.RawPath = strings.Join(parts, "/"), ""
	return u.String()
}
