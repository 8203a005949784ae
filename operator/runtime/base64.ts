/** The data of a Secret is in base64. */
export const toBase64 = (text: string): string => Buffer.from(text, 'utf8').toString('base64');

export const fromBase64 = (data: string): string => Buffer.from(data, 'base64').toString('utf8');
