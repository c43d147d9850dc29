// A real browser for pages: headless Chromium, controlled over its debugging pipe. One start serves many pages.

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import type { TestContext } from 'node:test'
import { temporaryFolder } from './database.ts'
import { hasTool } from './tools.ts'

type Browser = {
  /** Opens a page of its own and waits until it is loaded. Cookies are shared by all pages of a browser. */
  open: (url: string, look?: Look) => Promise<Page>
}
type Look = {
  width?: number
  height?: number
  dark?: boolean
  phone?: boolean
  /** Whether it runs the page's scripts; yes by default. */
  scripts?: boolean
}
type Scheme = 'dark' | 'light'
export type Page = {
  /**
   * The value of a JavaScript expression, as JSON would carry it; a promise is awaited. The page's CSP does not apply.
   */
  evaluate: <T>(expression: string) => Promise<T>
  /** Sets the user's preference for dark or light pages. */
  prefer: (scheme: Scheme) => Promise<void>
  /** Types a text into the focused field, as if it were pasted. */
  type: (text: string) => Promise<void>
  press: (key: keyof typeof KEYS) => Promise<void>
  /** Opens another address in the same page. */
  goTo: (url: string) => Promise<void>
  /** Performs an action that leads to another page, such as a click on a link, and waits until that is loaded. */
  follow: (expression: string) => Promise<void>
  /** Writes the whole page, however long, as PNG. */
  screenshot: (file: string) => Promise<void>
  /** Writes the printed page as PDF, on A4. */
  pdf: (file: string) => Promise<void>
  /**
   * Errors, warnings of the console and refusals of the content security policy so far; those of the browser itself
   * too.
   */
  problems: () => string[]
  /** Every address requested so far, without data: ones. */
  requested: () => string[]
}

type Message = {
  id?: number
  method?: string
  sessionId?: string
  params?: Fields
  result?: Fields
  error?: Fields
}
type Fields = Record<string, unknown>
type Send = <T = Fields>(method: string, params?: Fields, sessionId?: string) => Promise<T>
type Wire = {
  send: Send
  onEvent: (sessionId: string, heard: (method: string, params: Fields) => void) => void
}

const LOADED_MS = 30_000
/** The browser's code of a key, and the text it types. */
const KEYS = { Enter: { windowsVirtualKeyCode: 13, text: '\r' }, Tab: { windowsVirtualKeyCode: 9 } }

/** The browser, until the test ends; null where it is not installed, which the run reports, and which fails in CI. */
export async function openBrowser(t: TestContext): Promise<Browser | null> {
  if (!hasTool(t, 'chromium')) return null
  const { send, onEvent } = startChromium(t)
  return {
    async open(url, look = {}) {
      const { targetId } = await send<{ targetId: string }>('Target.createTarget', { url: 'about:blank' })
      const attach = { targetId, flatten: true }
      const { sessionId } = await send<{ sessionId: string }>('Target.attachToTarget', attach)
      const page = await preparePage(
        (method, params) => send(method, params, sessionId),
        look,
        (heard) => onEvent(sessionId, heard),
      )
      await page.goTo(url)
      return page
    },
  }
}

/** A single process, which is killed when the test ends. Messages are JSON, each ended by a zero byte. */
function startChromium(t: TestContext): Wire {
  const profile = temporaryFolder(t)
  const flags = '--headless --no-sandbox --disable-gpu --disable-dev-shm-usage --hide-scrollbars'.split(' ')
  const quiet = ['--no-first-run', '--disable-background-networking', '--disable-component-update']
  const argv = [...flags, ...quiet, '--remote-debugging-pipe', `--user-data-dir=${profile}`, 'about:blank']
  const child = spawn('chromium', argv, {
    stdio: ['ignore', 'ignore', 'ignore', 'pipe', 'pipe'],
    // The leader of a group, so that all of its processes can be ended together.
    detached: true,
    env: { PATH: process.env.PATH, HOME: profile },
  })
  const ended = once(child, 'close')
  t.after(async () => {
    if (child.pid !== undefined && child.exitCode === null) process.kill(-child.pid, 'SIGKILL')
    await ended
  })
  const toIt = child.stdio[3] as NodeJS.WritableStream
  const fromIt = child.stdio[4] as NodeJS.ReadableStream
  const waiting = new Map<number, PromiseWithResolvers<unknown>>()
  const listeners = new Map<string, (method: string, params: Fields) => void>()
  let [rest, sent] = ['', 0]
  fromIt.setEncoding('utf8')
  fromIt.on('data', (text: string) => {
    const whole = (rest + text).split('\0')
    rest = whole.pop() ?? ''
    for (const message of whole) hear(JSON.parse(message))
  })
  ended.then(() => {
    for (const { reject } of waiting.values()) reject(new Error('chromium has ended'))
  })

  function hear({ id, method, sessionId, params = {}, result, error }: Message): void {
    if (id === undefined) listeners.get(sessionId ?? '')?.(method ?? '', params)
    const answer = waiting.get(id ?? 0)
    waiting.delete(id ?? 0)
    if (error) answer?.reject(new Error(JSON.stringify(error)))
    else answer?.resolve(result)
  }

  return {
    send<T>(method: string, params: Fields = {}, sessionId?: string) {
      const answer = Promise.withResolvers<unknown>()
      sent += 1
      waiting.set(sent, answer)
      toIt.write(`${JSON.stringify({ id: sent, method, params, ...(sessionId && { sessionId }) })}\0`)
      return answer.promise as Promise<T>
    },
    onEvent: (sessionId, heard) => void listeners.set(sessionId, heard),
  }
}

type OnEvent = (heard: (method: string, params: Fields) => void) => void

async function preparePage(send: Send, look: Look, onEvent: OnEvent): Promise<Page> {
  const { width = 1280, height = 800, dark = false, phone = false, scripts = true } = look
  const [problems, requested]: [string[], string[]] = [[], []]
  let loaded = Promise.withResolvers<void>()
  onEvent((method, params) => {
    if (method === 'Page.loadEventFired') loaded.resolve()
    if (method === 'Network.requestWillBeSent') requested.push((params.request as { url: string }).url)
    if (method === 'Runtime.exceptionThrown') problems.push(JSON.stringify(params.exceptionDetails))
    if (method === 'Log.entryAdded') {
      const { level, text, url = '' } = params.entry as { level: string; text: string; url?: string }
      if (['error', 'warning'].includes(level)) problems.push(`${text} ${url}`.trim())
    }
    if (method === 'Runtime.consoleAPICalled' && ['error', 'warning', 'assert'].includes(String(params.type)))
      problems.push(JSON.stringify(params.args))
  })
  const prefer = async (value: Scheme): Promise<void> => {
    await send('Emulation.setEmulatedMedia', { features: [{ name: 'prefers-color-scheme', value }] })
  }
  await Promise.all([
    ...['Page', 'Runtime', 'Log', 'Network'].map((domain) => send(`${domain}.enable`)),
    send('Emulation.setDeviceMetricsOverride', { width, height, deviceScaleFactor: 1, mobile: phone }),
    prefer(dark ? 'dark' : 'light'),
    send('Emulation.setScriptExecutionDisabled', { value: !scripts }),
  ])

  async function evaluate<T>(expression: string): Promise<T> {
    const asked = { expression, returnByValue: true, awaitPromise: true, userGesture: true }
    type Evaluated = { result: { value: T }; exceptionDetails?: unknown }
    const { result, exceptionDetails } = await send<Evaluated>('Runtime.evaluate', asked)
    if (exceptionDetails) throw new Error(JSON.stringify(exceptionDetails))
    return result.value
  }
  async function untilLoaded(begun: Promise<unknown>, what: string): Promise<void> {
    loaded = Promise.withResolvers()
    const timer = setTimeout(() => loaded.reject(new Error(`no page after ${what}`)), LOADED_MS)
    await Promise.all([begun, loaded.promise]).finally(() => clearTimeout(timer))
  }
  const write = async (file: string, answer: Promise<{ data: string }>): Promise<void> =>
    writeFileSync(file, Buffer.from((await answer).data, 'base64'))

  return {
    evaluate,
    prefer,
    type: async (text) => void (await send('Input.insertText', { text })),
    press: async (key) => {
      for (const type of ['keyDown', 'keyUp'])
        await send('Input.dispatchKeyEvent', { type, key, code: key, ...KEYS[key] })
    },
    goTo: (url) => untilLoaded(send('Page.navigate', { url }), url),
    follow: (expression) => untilLoaded(evaluate(`void (${expression})`), expression),
    screenshot: (file) => write(file, send('Page.captureScreenshot', { captureBeyondViewport: true })),
    pdf: (file) =>
      write(file, send('Page.printToPDF', { preferCSSPageSize: true, paperWidth: 8.27, paperHeight: 11.69 })),
    problems: () => [...problems],
    requested: () => requested.filter((url) => !url.startsWith('data:')),
  }
}
