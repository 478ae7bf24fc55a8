package rpc

import "unicode/utf8"

// IsBatch says whether the first token of b opens an array.
func IsBatch(b []byte) bool {
	s := scanner{b: b}
	i := s.space(0)
	return i < len(b) && b[i] == '['
}

// Batch is the spans of the elements of a JSON-RPC batch. All of b is validated as JSON, but no element is judged:
// Scan does that one by one. The error is a *ScanError.
func Batch(b []byte) ([]Span, error) {
	if !utf8.Valid(b) {
		return nil, &ScanError{Code: ParseError, Text: "the batch is not UTF-8"}
	}
	s := scanner{b: b}
	all := Span{From: s.space(0)}
	all.To = s.value(all.From, 0, elsewhere)
	if all.To >= 0 {
		if rest := s.space(all.To); rest != len(b) {
			s.bad, all.To = rest, -1
		}
	}
	if all.To < 0 {
		return nil, &ScanError{Code: ParseError, Text: s.parseText()}
	}
	var spans []Span
	for e := range Elements(b, all) {
		if len(spans) == maxBatch {
			return nil, &ScanError{Code: InvalidRequest, Text: "the batch has more than 4096 messages"}
		}
		spans = append(spans, e)
	}
	if len(spans) == 0 {
		return nil, &ScanError{Code: InvalidRequest, Text: "the batch is empty or not an array"}
	}
	return spans, nil
}
