package demo

import (
	"context"
	"fmt"
	"hash/fnv"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// maxSeconds bounds `slow`. Five minutes outlast every client's own limit, which is what the tool is there to show.
const maxSeconds = 300

// maxStep is the longest silence of `slow`: clients that extend their deadline on progress have limits from 10 s up.
const maxStep = time.Second

func addTools(s *mcp.Server) {
	readOnly := harmless()
	mcp.AddTool(s, &mcp.Tool{
		Name: "add", Title: "Add two numbers", Description: "Adds two numbers.", Annotations: readOnly,
	}, add)
	addEcho(s, "echo")
	mcp.AddTool(s, &mcp.Tool{
		Name: "slow", Title: "Slow task", Description: "Works for some seconds, reports progress and can be cancelled.",
		Annotations: readOnly,
	}, slow)
	mcp.AddTool(s, &mcp.Tool{
		Name: "ask", Title: "Ask the user", Description: "Asks the user for a name and greets with it (elicitation).",
		Annotations: readOnly,
	}, ask)
	mcp.AddTool(s, &mcp.Tool{
		Name: "image", Title: "Draw an image", Description: "Draws a small colour wheel as a PNG.", Annotations: readOnly,
	}, picture)
	mcp.AddTool(s, &mcp.Tool{
		Name: "weather", Title: "Invented weather", Annotations: readOnly,
		Description: "Returns an invented, always equal weather report for a city as structured output.",
	}, weather)
}

func harmless() *mcp.ToolAnnotations {
	return &mcp.ToolAnnotations{ReadOnlyHint: true, IdempotentHint: true, OpenWorldHint: new(false)}
}

func addEcho(s *mcp.Server, name string) {
	mcp.AddTool(s, &mcp.Tool{
		Name: name, Title: "Echo", Description: "Returns the text it was given.", Annotations: harmless(),
	}, echo)
}

type addInput struct {
	A float64 `json:"a" jsonschema:"first number"`
	B float64 `json:"b" jsonschema:"second number"`
}

type addOutput struct {
	Sum float64 `json:"sum" jsonschema:"a plus b"`
}

func add(_ context.Context, _ *mcp.CallToolRequest, in addInput) (*mcp.CallToolResult, addOutput, error) {
	sum := in.A + in.B
	return text("%v", sum), addOutput{Sum: sum}, nil
}

type echoInput struct {
	Text string `json:"text" jsonschema:"what to return"`
}

func echo(_ context.Context, _ *mcp.CallToolRequest, in echoInput) (*mcp.CallToolResult, any, error) {
	return text("%s", in.Text), nil, nil
}

type slowInput struct {
	Seconds float64 `json:"seconds,omitempty" jsonschema:"how long to work, 0 to 300; 5 when absent"`
}

// slow reports progress at least once a second and ten times in all, and stops at once when it is cancelled.
func slow(ctx context.Context, req *mcp.CallToolRequest, in slowInput) (*mcp.CallToolResult, any, error) {
	if in.Seconds < 0 || in.Seconds > maxSeconds {
		return nil, nil, fmt.Errorf("seconds is %v, want 0 to %d", in.Seconds, maxSeconds)
	}
	if in.Seconds == 0 {
		in.Seconds = 5
	}
	total := time.Duration(in.Seconds * float64(time.Second))
	step := max(min(total/10, maxStep), time.Millisecond)
	tick := time.NewTicker(step)
	defer tick.Stop()
	for done := step; ; done += step {
		select {
		case <-ctx.Done():
			return nil, nil, context.Cause(ctx)
		case <-tick.C:
		}
		done = min(done, total)
		if token := req.Params.GetProgressToken(); token != nil {
			if err := req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{
				ProgressToken: token, Progress: done.Seconds(), Total: total.Seconds(),
				Message: fmt.Sprintf("%d %% done", 100*done/total),
			}); err != nil {
				return nil, nil, err
			}
		}
		if done == total {
			return text("worked for %v", total), nil, nil
		}
	}
}

type askInput struct {
	Question string `json:"question,omitempty" jsonschema:"what to ask; a question for the name when absent"`
}

// ask returns an input request. The SDK sends it as an elicitation to legacy clients and calls again with the answer;
// modern clients get it as the result and repeat the call themselves.
func ask(_ context.Context, req *mcp.CallToolRequest, in askInput) (*mcp.CallToolResult, any, error) {
	const key = "name"
	if answer, ok := req.Params.InputResponses[key].(*mcp.ElicitResult); ok && answer != nil {
		if name, ok := answer.Content[key].(string); ok && answer.Action == "accept" {
			return text("Hello, %s!", name), nil, nil
		}
		return text("no name was given: the answer was %q", answer.Action), nil, nil
	}
	if caps := req.ClientCapabilities(); caps == nil || caps.Elicitation == nil {
		return nil, nil, fmt.Errorf("this client cannot ask its user: it did not declare the elicitation capability")
	}
	question := in.Question
	if question == "" {
		question = "What is your name?"
	}
	return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{key: &mcp.ElicitParams{
		Message: question,
		RequestedSchema: &jsonschema.Schema{
			Type:       "object",
			Properties: map[string]*jsonschema.Schema{key: {Type: "string", Title: "Name", MinLength: new(1)}},
			Required:   []string{key},
		},
	}}}, nil, nil
}

type weatherInput struct {
	City string `json:"city" jsonschema:"any name"`
}

type weatherOutput struct {
	City        string        `json:"city"`
	Temperature float64       `json:"temperature" jsonschema:"degrees Celsius"`
	Conditions  string        `json:"conditions" jsonschema:"one of sun, cloud, rain, snow"`
	Forecast    []weatherDay  `json:"forecast" jsonschema:"the next three days"`
	Wind        weatherVector `json:"wind"`
}

type weatherDay struct {
	Day  int     `json:"day" jsonschema:"1 is tomorrow"`
	Low  float64 `json:"low" jsonschema:"degrees Celsius"`
	High float64 `json:"high" jsonschema:"degrees Celsius"`
}

type weatherVector struct {
	Speed     float64 `json:"speed" jsonschema:"metres a second"`
	Direction int     `json:"direction" jsonschema:"degrees, 0 is north"`
}

func weather(_ context.Context, _ *mcp.CallToolRequest, in weatherInput) (*mcp.CallToolResult, weatherOutput, error) {
	h := fnv.New32a()
	_, _ = h.Write([]byte(in.City)) // a hash never fails to take bytes
	seed := int(h.Sum32() >> 1)
	t := float64(seed%40) - 5
	conditions := []string{"cloud", "rain", "sun"}[seed%3]
	if t < 1 {
		conditions = "snow"
	}
	out := weatherOutput{
		City: in.City, Temperature: t, Conditions: conditions,
		Wind: weatherVector{Speed: float64(seed % 17), Direction: seed % 360},
	}
	for day := 1; day <= 3; day++ {
		drift := float64((seed>>day)%5 - 2)
		out.Forecast = append(out.Forecast, weatherDay{Day: day, Low: t + drift - 4, High: t + drift + 4})
	}
	return text("%s: %v °C, %s (invented)", in.City, t, conditions), out, nil
}

func text(format string, args ...any) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: fmt.Sprintf(format, args...)}}}
}
