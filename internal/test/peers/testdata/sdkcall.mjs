// One call by the client of the SDK: sdkcall.mjs SDK URL TOOL ARGUMENTS SECONDS. Prints the result or the error, and
// keeps the session open for so many seconds.
import { pathToFileURL } from "node:url";

const [sdk, url, name, args, seconds] = process.argv.slice(2);
const load = (file) => import(pathToFileURL(`${sdk}/dist/esm/client/${file}.js`));
const { Client } = await load("index");
const { StreamableHTTPClientTransport } = await load("streamableHttp");

const client = new Client({ name: "sdkcall", version: "1" });
await client.connect(new StreamableHTTPClientTransport(new URL(url)));
const text = await client.callTool({ name, arguments: JSON.parse(args) }).catch((e) => String(e));
console.log(JSON.stringify(text));
setTimeout(() => client.close().then(() => process.exit(0)), Number(seconds) * 1000);
