// Replaces the types that a partner generates from the API description, so that the client beside this file can be
// loaded. typed-client.process.test.ts checks the client, with freshly generated types.

// biome-ignore lint/suspicious/noExplicitAny: the generated types come in its place
type Anything = any
type Content = { content: { 'application/json': Anything } }
type Operation = {
  parameters: { query?: Anything; path?: Anything }
  requestBody?: Content
  responses: { 200: Content; 400: Content }
}
export type paths = Record<string, Record<'get' | 'post' | 'patch' | 'delete', Operation>>
