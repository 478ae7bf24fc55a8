// dualserver.mjs: a small server on the TypeScript SDK that speaks both protocol eras on one URL. The names of its
// tools, prompts and resources are those that the conformance suite calls; what it lacks fails directly and through the
// gateway alike, and that is what the test compares.
// usage: node dualserver.mjs NODE_MODULES PORT
import http from 'node:http';
import { createRequire } from 'node:module';

const [modules, port] = process.argv.slice(2);
const require = createRequire(modules + '/');
const { McpServer, createMcpHandler } = require('@modelcontextprotocol/server');
const { z } = require('zod');

const png = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';
const text = (s) => ({ content: [{ type: 'text', text: s }] });

function build() {
  const server = new McpServer({ name: 'dual', version: '1.0.0' }, { capabilities: { tools: {}, prompts: {}, resources: {}, logging: {} } });
  const tool = (name, run, schema = z.object({})) => server.registerTool(name, { description: name, inputSchema: schema }, run);
  tool('test_simple_text', async () => text('This is a simple text response for testing.'));
  tool('test_image_content', async () => ({ content: [{ type: 'image', data: png, mimeType: 'image/png' }] }));
  tool('test_embedded_resource', async () => ({
    content: [{ type: 'resource', resource: { uri: 'test://embedded', mimeType: 'text/plain', text: 'This is an embedded resource content.' } }],
  }));
  tool('test_multiple_content_types', async () => ({
    content: [
      { type: 'text', text: 'Multiple content types test:' },
      { type: 'image', data: png, mimeType: 'image/png' },
      { type: 'resource', resource: { uri: 'test://mixed', mimeType: 'application/json', text: '{"test":"data"}' } },
    ],
  }));
  tool('test_error_handling', async () => ({ ...text('This tool intentionally returns an error for testing'), isError: true }));
  server.registerPrompt('test_simple_prompt', { description: 'simple' }, async () => ({
    messages: [{ role: 'user', content: { type: 'text', text: 'This is a simple prompt for testing.' } }],
  }));
  server.registerResource('static-text', 'test://static-text', { mimeType: 'text/plain' }, async (uri) => ({
    contents: [{ uri: uri.href, mimeType: 'text/plain', text: 'This is the content of the static text resource.' }],
  }));
  return server;
}

const handler = createMcpHandler(build);

http.createServer(async (request, response) => {
  const chunks = [];
  for await (const chunk of request) chunks.push(chunk);
  const body = chunks.length ? Buffer.concat(chunks) : undefined;
  const answer = await handler.fetch(new Request(`http://127.0.0.1:${port}${request.url}`, { method: request.method, headers: request.headers, body }));
  response.writeHead(answer.status, Object.fromEntries(answer.headers));
  if (answer.body) for await (const chunk of answer.body) response.write(chunk);
  response.end();
}).listen(Number(port), '127.0.0.1');
