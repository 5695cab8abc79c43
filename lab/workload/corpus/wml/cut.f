define process name=p { thread name=t { flowop sempost target=x,value=1
