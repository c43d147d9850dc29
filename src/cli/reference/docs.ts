// docs and openapi: the guides and the description of the API, read from the program itself.

import {
  closeSync,
  constants,
  existsSync,
  lstatSync,
  mkdirSync,
  openSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { basename, dirname, join, relative } from 'node:path'
import { Argument, Command } from 'commander'
import { Problem, reasonInWords, usage } from '../../core/problem.ts'
import { quoted } from '../../core/text.ts'
import { kindOf } from '../../plain-file.ts'
import { deployedNames, readDeployed, VERSION } from '../../resources.ts'
import type { Cli } from '../context.ts'
import { note, print, renderFields } from '../terminal.ts'
import { findExamples, findGuides, findTopic, isListed, sampleFiles, topicNames } from './guides.ts'

const { O_DIRECTORY = 0, O_NOFOLLOW = 0 } = constants

export function docsCommand(cli: Cli): Command {
  const topic = new Argument('[topic]', 'its name, or the beginning of it; with #SECTION, a part of it')
  // Only help and completion need it: a normal start reads no page.
  Object.defineProperty(topic, 'argChoices', { get: topicNames })
  return new Command('docs')
    .description('show a guide; without a topic, list them')
    .addArgument(topic)
    .option('--examples <folder>', 'write the sample programs of the guides into it')
    .option(
      '--deploy <folder>',
      'write the Dockerfile, the compose files, the units and the settings of servers into it',
    )
    .option('--force', 'let --deploy replace files of the same names')
    .action((name: string | undefined, { examples, deploy, force = false }: Options) => {
      if ([name, examples, deploy].filter((given) => given !== undefined).length > 1)
        throw usage('Name a topic, --examples or --deploy, and only one of them.')
      if (force && deploy === undefined) throw usage('--force belongs to --deploy.')
      if (deploy !== undefined) {
        const texts = deployedNames().map((file) => ({ name: file, text: readDeployed(file) }))
        const mend = 'name another folder, or add --force'
        return writeAll(cli, deploy, { texts, replace: force, mend, readme: 'what each is for' })
      }
      if (examples !== undefined) {
        // They are meant to be changed, so existing ones are not replaced.
        const more = { replace: false, mend: 'name another folder', readme: 'how to start them' }
        return writeAll(cli, examples, { texts: sampleFiles(), ...more })
      }
      return name === undefined ? list(cli) : show(cli, name)
    })
}

type Options = { examples?: string; deploy?: string; force?: boolean }

function list(cli: Cli): void {
  const topics = findGuides()
    .filter(isListed)
    .map(({ topic, title }) => ({ topic, title }))
  print(cli, topics, () => renderFields(Object.fromEntries(topics.map(({ topic, title }) => [topic, title]))))
  if (cli.streams.out.isTTY) note(cli, '\ntranche docs TOPIC shows one.')
}

function show(cli: Cli, name: string): void {
  const { topic, title, text } = findTopic([...findGuides(), ...findExamples()], name)
  print(cli, { topic, title, text }, () => text.trimEnd())
}

type Writing = {
  texts: readonly { name: string; text: string }[]
  replace: boolean
  mend: string
  /** What their README.md says. */
  readme: string
}

/** Writes all files or, if a name is taken, none. */
function writeAll(cli: Cli, folder: string, { texts, replace, mend, readme }: Writing): void {
  const named = texts.map(({ name, text }) => ({ file: join(folder, name), text }))
  for (const { file } of named) {
    refuseStrangeFolders(folder, dirname(file))
    const found = lstatSync(file, { throwIfNoEntry: false })
    if (found && !(replace && !found.isDirectory()))
      throw new Problem('file_exists', `${file} already exists, and nothing was written: ${mend}.`)
  }
  for (const { file, text } of named) writeNew(folder, { file, text, replace })
  const page = quoted(join(folder, 'README.md'))
  const words = `${named.length} files are in ${quoted(folder)}; ${page} says ${readme}.`
  print(cli, { folder, files: named.map(({ file }) => file) }, () => words)
}

/** The folder in the command may be a link; below it, a link would lead the files elsewhere. */
function refuseStrangeFolders(named: string, folder: string): void {
  for (let at = folder; relative(named, at) !== ''; at = dirname(at)) {
    const found = lstatSync(at, { throwIfNoEntry: false })
    if (!found || found.isDirectory()) continue
    throw new Problem(
      'bad_file',
      `${at} is ${kindOf(found) ?? 'a file'}, not a folder, and nothing was written: name another folder.`,
    )
  }
}

type New = { file: string; text: string; replace: boolean }

/** An existing file is replaced, not written into: it may be a link. */
function writeNew(folder: string, { file, text, replace }: New): void {
  const opened: number[] = []
  try {
    mkdirSync(folder, { recursive: true })
    let at = folder
    // The folders are held open, so that one exchanged for a link meanwhile leads nowhere else.
    for (const name of ['.', ...relative(folder, dirname(file)).split('/').filter(Boolean)]) {
      if (name !== '.' && !existsSync(join(at, name))) mkdirSync(join(at, name))
      const flags = O_DIRECTORY | (name === '.' ? 0 : O_NOFOLLOW)
      const held = openSync(join(at, name), flags)
      opened.push(held)
      at = process.platform === 'linux' ? `/proc/self/fd/${held}` : join(at, name)
    }
    const there = join(at, basename(file))
    if (replace) rmSync(there, { force: true })
    writeFileSync(there, text, { flag: 'wx' })
  } catch (error) {
    throw new Problem('storage_failed', `${file} could not be written: ${reasonInWords(error)}.`)
  } finally {
    for (const held of opened) closeSync(held)
  }
}

/** Prints the document at /openapi.json of `serve`, for a client generator without a service at hand. */
export function openapiCommand(cli: Cli): Command {
  return new Command('openapi')
    .description('the description of the partner API (OpenAPI 3.1), as serve answers it at /openapi.json')
    .action(async () => {
      const { describeApi } = await import('../../http/openapi/document.ts')
      cli.streams.out.write(`${JSON.stringify(describeApi(VERSION))}\n`)
    })
}
