// The API description, to anyone who asks: it says nothing of any partner.

import { z } from 'zod'
import { VERSION } from '../../version.ts'
import { type Route, route } from '../route.ts'
import { describeApi } from './document.ts'

export const getDescription: Route = {
  ...route({
    method: 'GET',
    path: '/openapi.json',
    answer: z.record(z.string(), z.unknown()),
    handle: async () => describeApi(VERSION),
  }),
  public: true,
}
