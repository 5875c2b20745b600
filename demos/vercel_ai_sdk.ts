// The pattern in the Vercel AI SDK: a no-op think tool, forced first, and a typed way out.
// npm install ai@7 zod@4  (checked with ai 7.0.173, zod 4 and TypeScript 7.0, 2026-11-29)
import { generateText, isStepCount, tool, type LanguageModel } from "ai";
import { z } from "zod";

const think = tool({
  description: "Write down working notes. It changes nothing and fetches nothing.",
  inputSchema: z.object({
    thought: z.string().describe("Which rules apply, what is still unknown, what comes next."),
    should_continue: z.enum(["true", "false"]).describe('"false" only when all is done.'),
  }),
  execute: async () => "Thought recorded.",
});

const lookup_order = tool({
  description: "Look up an order by its number, such as ORD-001.",
  inputSchema: z.object({ order_id: z.string() }),
  execute: async ({ order_id }) => `${order_id}: Laptop Stand, 13 days old.`,
});

export async function run(model: LanguageModel, prompt: string): Promise<string> {
  const { text } = await generateText({
    model,
    prompt,
    tools: { think, lookup_order },
    stopWhen: isStepCount(20), // the only limit there is
    // Decided step by step: a toolChoice that is set once forces in every step.
    prepareStep: ({ steps }) => {
      const last = steps.at(-1);
      if (!last) return { toolChoice: { type: "tool", toolName: "think" } };
      const thoughts = last.toolCalls.filter((call) => !call.dynamic && call.toolName === "think");
      const isDone = thoughts.at(-1)?.input.should_continue === "false";
      if (isDone) return { toolChoice: "none" }; // one closing reply, without tools
      return { toolChoice: "auto" };
    },
  });
  return text;
}
