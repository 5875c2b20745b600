// A client of the gate, with an official TypeScript SDK: it pays without a thought, with one, and
// three times at once. Prints what it reads and what its user is asked, as JSON.
//
//     NODE_PATH=DIR/node_modules node gate_client.cjs PACKAGE ERA COMMAND...
//
// PACKAGE is @modelcontextprotocol/client (version 2) or @modelcontextprotocol/sdk (version 1).
// ERA is "legacy" or "auto", which takes 2026-07-28 where it can.

const [name, era, command, ...args] = process.argv.slice(2);
const isOld = name.endsWith("/sdk");
const { Client } = require(isOld ? `${name}/client/index.js` : name);
const { StdioClientTransport } = require(isOld ? `${name}/client/stdio.js` : `${name}/stdio`);

async function main() {
  const asked = [];
  const client = new Client(
    { name: "test", version: "1" },
    { capabilities: { elicitation: {} }, versionNegotiation: { mode: era } },
  );
  const elicitation = isOld
    ? require(`${name}/types.js`).ElicitRequestSchema
    : "elicitation/create";
  client.setRequestHandler(elicitation, async (request) => {
    asked.push(request.params.message);
    return { action: "accept", content: {} };
  });

  const env = { ...process.env };
  await client.connect(new StdioClientTransport({ command, args, env }));
  const pay = (cents, thought) =>
    client.callTool({ name: "pay", arguments: thought ? { cents, thought } : { cents } });
  const tools = (await client.listTools()).tools.map((tool) => tool.name);
  const refused = await pay(1);
  await client.callTool({ name: "think", arguments: { thought: "It is due." } });
  const results = [refused, await pay(1)];
  results.push(...(await Promise.all([2, 3, 4].map((cents) => pay(cents, "It is due.")))));
  await client.close();
  const texts = results.map((result) => result.content.map((part) => part.text).join());
  console.log(JSON.stringify({ tools, texts, asked }));
}

main();
