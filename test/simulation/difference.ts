// What a simulation fails with: the program and the model disagree, or the model with itself.

export class Difference extends Error {}
