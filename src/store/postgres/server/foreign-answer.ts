// What answers where PostgreSQL should: the port of another program is a likely mistake in an address, and the first
// bytes that it sends tell which program it is.

/** How much of an answer is kept, and how much of it is shown. */
export const HEARD_BYTES_MAX = 512
const SHOWN_MAX = 60

/** By how the answer begins: each byte as a character, those that are none as `u` and two digits. */
const PROGRAMS: [begins: RegExp, name: string][] = [
  [/^HTTP\/\d/, 'a web server'],
  [/^SSH-\d/, 'an SSH server'],
  // A record of TLS: an alert, or part of a handshake, and its version.
  [/^u(15|16)u03u0[0-4]/, 'a server of TLS, which wants it from the first byte'],
  // A packet: three bytes of length, its number, and the version of the protocol or an error.
  [/^(u..|.)(u00){3}(u0a|\xff)/, 'MySQL or MariaDB'],
  [/^(220|554)[ -]/, 'a mail or FTP server'],
  [/^\* (OK|BYE|PREAUTH)/, 'an IMAP server'],
  [/^-(ERR|DENIED|NOAUTH)/, 'Redis'],
]

/** A message of PostgreSQL's: a letter and a length. A server that cannot start a process sends an E and its words. */
const OF_POSTGRES = /^([SNG]$|E|[RNSKZv]u00)/
const UNPRINTED = /\p{Cc}/gu
/** What is long enough to be meant as words. */
const WORDS = /^[\x20-\x7e]{4,}/

/**
 * Which program an answer comes from, with its first words in quotes; null for PostgreSQL's, and for one that tells
 * nothing.
 */
export function foreignAnswer(heard: Uint8Array): string | null {
  const bytes = Buffer.from(heard.subarray(0, HEARD_BYTES_MAX)).toString('latin1')
  const text = bytes.replace(UNPRINTED, (byte) => `u${byte.charCodeAt(0).toString(16).padStart(2, '0')}`)
  if (OF_POSTGRES.test(text)) return null
  const [, name] = PROGRAMS.find(([begins]) => begins.test(text)) ?? []
  const words = WORDS.exec(bytes)?.[0].trimEnd() ?? null
  if (words === null) return name ?? null
  const shown = JSON.stringify(words.length > SHOWN_MAX ? `${words.slice(0, SHOWN_MAX)}...` : words)
  return name === undefined ? `something that says ${shown}` : `${name}, which says ${shown}`
}
