// Starts the source of this checkout. Plain JavaScript, so that a Node too old for the rest can still say so.

const NODE_MIN = 26

if (Number.parseInt(process.versions.node, 10) < NODE_MIN) {
  process.stderr.write(
    `tranche needs Node ${NODE_MIN} or later and this is ${process.versions.node}: run npm ci, which brings it.\n`,
  )
  process.exitCode = 1
} else {
  const { main } = await import('../src/main.ts')
  await main()
}
