// Completion scripts, made from the command tree. A script is self-contained: completing never starts the program.

import { Argument, Command, type Option } from 'commander'
import { singleQuoted } from '../../core/text.ts'
import type { Cli } from '../context.ts'
import { everyCommand } from '../help.ts'
import { print } from '../terminal.ts'

const SCRIPTS = { bash: bashScript, zsh: zshScript, fish: fishScript }

export function completionCommand(cli: Cli, program: Command): Command {
  return new Command('completion')
    .description('print a script that completes commands and options in your shell')
    .addArgument(new Argument('<shell>', 'the shell it is for').choices(Object.keys(SCRIPTS)))
    .action((shell: keyof typeof SCRIPTS) => {
      const script = SCRIPTS[shell](placesOf(program)).trimEnd()
      print(cli, { shell, script }, () => script)
    })
}

/** One command for completion. The path is empty for the program, "/key/create" for a subcommand. */
type Place = {
  path: string
  commands: Word[]
  options: Flag[]
  /** The possible first arguments, if that is a closed list. */
  choices: readonly string[]
}
type Word = { name: string; description: string }
type Flag = Word & { takesValue: boolean; choices: readonly string[] }

function placesOf(program: Command): Place[] {
  const globals = flagsOf(program)
  const places: Place[] = []
  everyCommand(program, (command, words) => {
    places.push({
      path: words.map((word) => `/${word}`).join(''),
      commands: command.commands.map((inner) => ({
        name: inner.name(),
        description: oneLine(inner.description()),
      })),
      options: [...(command === program ? [] : flagsOf(command)), ...globals, HELP],
      choices: command.registeredArguments[0]?.argChoices ?? [],
    })
  })
  return places
}

const pathsOf = (places: readonly Place[]): string[] =>
  places.map(({ path }) => path).filter((path) => path !== '')

/** The flags of any command that are followed by a value: the word after one is not a command. */
function valueFlags(places: readonly Place[]): string[] {
  const flags = places.flatMap(({ options }) => options).filter(({ takesValue }) => takesValue)
  return [...new Set(flags.map(({ name }) => name))].sort()
}

/** The words that may follow a flag of a command, where that is a closed list. */
const choicesOf = (places: readonly Place[]): [place: string, words: string][] =>
  places.flatMap(({ path, options }) =>
    options
      .filter(({ choices }) => choices.length > 0)
      .map(({ name, choices }): [string, string] => [`${path}:${name}`, choices.join(' ')]),
  )

const HELP: Flag = { name: '--help', description: 'show what it takes', takesValue: false, choices: [] }

const flagsOf = (command: Command): Flag[] =>
  command.options
    .filter(({ hidden }) => !hidden)
    .map((option: Option) => ({
      name: option.long ?? option.flags,
      description: oneLine(option.description),
      takesValue: option.required || option.optional,
      choices: option.argChoices ?? [],
    }))

const oneLine = (text: string): string => text.replace(/\s+/g, ' ')

function bashScript(places: readonly Place[]): string {
  const choices = choicesOf(places).map(([place, words]) => `    '${place}') words='${words}' ;;`)
  const words = places.map(({ path, commands, options, choices }) => {
    const all = [...commands.map(({ name }) => name), ...choices, ...options.map(({ name }) => name)]
    return `      '${path}') words='${all.join(' ')}' ;;`
  })
  return `# Completion of tranche for bash. To load it: source <(tranche completion bash)
_tranche() {
  local cur=\${COMP_WORDS[COMP_CWORD]} prev=\${COMP_WORDS[COMP_CWORD - 1]}
  local path='' words='' skip='' i
  COMPREPLY=()
  for ((i = 1; i < COMP_CWORD; i++)); do
    if [[ -n $skip ]]; then
      skip=''
      continue
    fi
    case \${COMP_WORDS[i]} in
    ${valueFlags(places).join(' | ')}) skip=1 ;;
    -*) ;;
    *)
      case $path/\${COMP_WORDS[i]} in
      ${pathsOf(places).join(' | ')}) path=$path/\${COMP_WORDS[i]} ;;
      esac
      ;;
    esac
  done
  case $path:$prev in
${choices.join('\n')}
  *)
    # Any other value may be a file, which bash completes when nothing is offered.
    [[ -n $skip ]] || case $path in
${words.join('\n')}
    esac
    ;;
  esac
  # Not mapfile: the bash of macOS has none.
  COMPREPLY=($(compgen -W "$words" -- "$cur"))
}
complete -o default -F _tranche tranche
`
}

function fishScript(places: readonly Place[]): string {
  return `# Completion of tranche for fish. To load it: tranche completion fish | source
function __tranche_at
    set -l place ''
    set -l skip ''
    set -l tokens (commandline -opc)
    for word in $tokens[2..-1]
        if test -n "$skip"
            set skip ''
            continue
        end
        switch $word
            case ${valueFlags(places).join(' ')}
                set skip 1
            case '-*'
            case '*'
                if contains -- $place/$word ${pathsOf(places).join(' ')}
                    set place $place/$word
                end
        end
    end
    test "$place" = "$argv[1]"
end
complete -c tranche -e
${places.flatMap(linesOf).join('\n')}
`
}

function linesOf({ path, commands, options, choices }: Place): string[] {
  const at = `complete -c tranche -n ${quote(`__tranche_at '${path}'`)}`
  // A command with subcommands takes no file.
  const files = commands.length + choices.length > 0 ? ' -f' : ''
  return [
    ...commands.map(({ name, description }) => `${at} -f -a ${name} -d ${quote(description)}`),
    ...choices.map((name) => `${at} -f -a ${name}`),
    ...options.map(({ name, description, takesValue, choices }) => {
      const value = choices.length > 0 ? ` -x -a ${quote(choices.join(' '))}` : takesValue ? ' -r' : files
      return `${at} -l ${name.slice(2)}${value} -d ${quote(description)}`
    }),
  ]
}

const quote = (text: string): string => `'${text.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`

function zshScript(places: readonly Place[]): string {
  const choices = choicesOf(places).map(
    ([place, words]) => `    ${singleQuoted(place)}) compadd -- ${words}; return ;;`,
  )
  const words = places.map(({ path, commands, options, choices }) => {
    const named = choices.map((name) => ({ name, description: name }))
    return `    ${singleQuoted(path)})\n      commands=(${listOf([...commands, ...named])})\n      options=(${listOf(options)}) ;;`
  })
  return `#compdef tranche
# Completion of tranche for zsh. To load it: source <(tranche completion zsh)
_tranche() {
  local place='' skip='' word
  local -a commands options
  for word in "\${(@)words[2,CURRENT-1]}"; do
    if [[ -n $skip ]]; then
      skip=''
      continue
    fi
    case $word in
    ${valueFlags(places).join(' | ')}) skip=1 ;;
    -*) ;;
    *)
      case $place/$word in
      ${pathsOf(places).join(' | ')}) place=$place/$word ;;
      esac
      ;;
    esac
  done
  case $place:$words[CURRENT-1] in
${choices.join('\n')}
  esac
  if [[ -n $skip ]]; then
    _files
    return
  fi
  case $place in
${words.join('\n')}
  esac
  if [[ $words[CURRENT] == -* ]]; then
    _describe option options
  elif (( $#commands )); then
    _describe command commands
  else
    _files
  fi
}
if [[ $funcstack[1] == _tranche ]]; then
  _tranche "$@"
else
  compdef _tranche tranche
fi
`
}

const listOf = (words: readonly Word[]): string =>
  words
    .map(({ name, description }) => singleQuoted(`${name}:${description.replaceAll(':', '\\:')}`))
    .join(' ')
