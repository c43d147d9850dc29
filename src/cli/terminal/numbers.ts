// Numbers as people read them, for whoever prints.

export { counted, grouped } from '../../core/counted.ts'
