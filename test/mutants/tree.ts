// A copy of the tree to plant bugs in, and processes that run there; removed when this process ends in any way.

import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { scratch } from '../support/samples.ts'

export const ROOT = join(import.meta.dirname, '../..')

export const CONTRACT = {
  sqlite: 'test/store/sqlite.test.ts',
  postgres: 'test/store/postgres.server.test.ts',
}

/** Signs of a program that cannot run at all, which every test notices. */
export const STILLBORN =
  /^.*(?:SyntaxError|ReferenceError|is not a function|ERR_MODULE_NOT_FOUND|Transform failed|syntax error|no such (?:column|table|function)|(?:column|relation|function) \S+ does not exist|has no column named|ON CONFLICT clause does not match|(?:Missing|Unknown) named parameter).*$/m

/** The end of a process. A `code` of null: it was killed. */
type Run = { code: number | null; output: string; timedOut: boolean }

const running = new Set<ChildProcess>()

/** Copies the files of the project in their present state, committed or not. */
export function copyTree(): string {
  const folder = mkdtempSync(join(scratch(), 'tranche-mutants-'))
  process.once('exit', () => {
    for (const child of running) kill(child)
    rmSync(folder, { recursive: true, force: true, maxRetries: 5 })
  })
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(130))
  const which = ['--cached', '--others', '--exclude-standard']
  const listed = execFileSync('git', ['ls-files', '-z', ...which], { cwd: ROOT, encoding: 'utf8' })
  const tree = join(folder, 'tree')
  for (const file of listed.split('\0').filter((name) => name !== '' && existsSync(join(ROOT, name)))) {
    mkdirSync(dirname(join(tree, file)), { recursive: true })
    cpSync(join(ROOT, file), join(tree, file))
  }
  mkdirSync(join(folder, 'tmp'))
  symlinkSync(join(ROOT, 'node_modules'), join(tree, 'node_modules'))
  return tree
}

/**
 * Replaces the executable, which would have to be built for every bug, by a script that runs the source of the tree.
 */
export function putSourceForExecutable(tree: string): void {
  const program = join(tree, 'dist/tranche')
  mkdirSync(dirname(program), { recursive: true })
  const lines = ['#!/bin/sh', `exec '${process.execPath}' '${join(tree, 'bin/tranche.mjs')}' "$@"`, '']
  writeFileSync(program, lines.join('\n'), { mode: 0o755 })
  // Newer than all of its sources.
  utimesSync(program, FAR, FAR)
}

/** In seconds. */
const FAR = Date.UTC(2100, 0, 1) / 1000

/** Runs node in the tree for so long at most, or until its output suffices. Its children end with it. */
export async function runNode(
  tree: string,
  args: readonly string[],
  limitMs: number,
  isEnough: (output: string) => boolean = () => false,
  variables: NodeJS.ProcessEnv = {},
): Promise<Run> {
  // Its own group, so that all of it can be ended; its temporary files lie beside the tree.
  const child = spawn(process.execPath, args, {
    cwd: tree,
    detached: true,
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...process.env, ...variables, TMPDIR: join(tree, '../tmp') },
  })
  running.add(child)
  let output = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text) => {
      output += text
      if (isEnough(output)) kill(child)
    })
  }
  let timedOut = false
  const timer = setTimeout(() => {
    timedOut = true
    kill(child)
  }, limitMs)
  const code = await new Promise<number | null>((resolve, reject) => {
    child.once('error', reject).once('close', resolve)
  })
  clearTimeout(timer)
  running.delete(child)
  return { code, output, timedOut }
}

function kill({ pid }: ChildProcess): void {
  if (pid === undefined) return
  try {
    process.kill(-pid, 'SIGKILL')
  } catch {
    // It has ended already.
  }
}
