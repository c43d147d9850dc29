// Starts the partner. Only plain JavaScript is in this file, so that a Node.js too old for TypeScript can read it and
// say so.

if (process.features.typescript) import('./integration.mts')
else {
  console.error(
    `This program needs Node.js 22.18 or later, which runs TypeScript as it is; this is ${process.version}.`,
  )
  process.exitCode = 1
}
