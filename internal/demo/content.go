package demo

import (
	"bytes"
	"context"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"math"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// The sizes that `image` draws, in pixels: large enough to see, small enough that no client cuts the result.
const (
	defaultSize = 64
	maxSize     = 512
)

type imageInput struct {
	Size int `json:"size,omitempty" jsonschema:"width and height in pixels, 1 to 512; 64 when absent"`
}

func picture(_ context.Context, _ *mcp.CallToolRequest, in imageInput) (*mcp.CallToolResult, any, error) {
	if in.Size == 0 {
		in.Size = defaultSize
	}
	if in.Size < 1 || in.Size > maxSize {
		return nil, nil, fmt.Errorf("size is %d, want 1 to %d", in.Size, maxSize)
	}
	var buf bytes.Buffer
	if err := png.Encode(&buf, wheel(in.Size)); err != nil {
		return nil, nil, err
	}
	return &mcp.CallToolResult{Content: []mcp.Content{
		&mcp.TextContent{Text: fmt.Sprintf("A colour wheel of %d by %d pixels.", in.Size, in.Size)},
		&mcp.ImageContent{Data: buf.Bytes(), MIMEType: "image/png"},
	}}, nil, nil
}

// wheel draws a disc whose hue follows the angle, on a transparent ground.
func wheel(size int) image.Image {
	img := image.NewNRGBA(image.Rect(0, 0, size, size))
	centre := float64(size-1) / 2
	for y := range size {
		for x := range size {
			dx, dy := float64(x)-centre, float64(y)-centre
			if math.Hypot(dx, dy) <= float64(size)/2 {
				img.SetNRGBA(x, y, hue(math.Atan2(dy, dx)))
			}
		}
	}
	return img
}

// hue mixes the three primary colours by their distance from the angle, in radians.
func hue(angle float64) color.NRGBA {
	part := func(shift float64) uint8 { return uint8(127.5 * (1 + math.Cos(angle-shift))) }
	return color.NRGBA{R: part(0), G: part(2 * math.Pi / 3), B: part(4 * math.Pi / 3), A: 255}
}

const aboutURI = "demo://about"

const about = `# The mcpx demo server

Every tool of this server shows one thing a client has to handle:

- ` + "`add`" + ` and ` + "`weather`" + `: structured output with a schema
- ` + "`echo`" + `: plain text, returned as it came
- ` + "`slow`" + `: progress and cancellation
- ` + "`ask`" + `: a question to the user
- ` + "`image`" + `: binary content
`

func addResource(s *mcp.Server) {
	s.AddResource(&mcp.Resource{
		URI: aboutURI, Name: "about", Title: "About this server", MIMEType: "text/markdown",
		Description: "What each tool of the demo server shows.",
	}, func(_ context.Context, req *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{
			{URI: req.Params.URI, MIMEType: "text/markdown", Text: about},
		}}, nil
	})
}

func addPrompt(s *mcp.Server) {
	s.AddPrompt(&mcp.Prompt{
		Name: "tour", Title: "Tour of the demo server", Description: "Asks the model to try every tool once.",
		Arguments: []*mcp.PromptArgument{{Name: "city", Description: "the city for the weather report"}},
	}, func(_ context.Context, req *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		city := req.Params.Arguments["city"]
		if city == "" {
			city = "Oslo"
		}
		return &mcp.GetPromptResult{
			Description: "A tour of the demo server",
			Messages: []*mcp.PromptMessage{{Role: "user", Content: &mcp.TextContent{
				Text: "Call each tool of the demo server once: add 2 and 3, echo a word, the weather in " + city +
					", an image, slow for 2 seconds, and ask. Then say in one line each what came back.",
			}}},
		}, nil
	})
}
